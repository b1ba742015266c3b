/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers that stand for the words of an instruction's name. */
#ifndef PTX_TEXT_H
#define PTX_TEXT_H

enum comparison { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, IS_NAN };
/* option of floating-point operations and conversions */
enum { FLUSH = 1, SATURATE = 2, NEAREST = 0, TO_ZERO = 4, DOWN = 8, UP = 12, ROUNDING = 12, INTEGRAL = 16 };
/* option of atomic operations */
enum atomic { ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC };

#endif
