# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small model trained by Horovod and PyTorch on each GPU, or on CPUs where there is none: does the stack work?

sbatch horovod.slurm.sh horovod_torch.py [STEPS]

Each rank prints where it runs, rank 0 the loss; its last line is "trained: ..." with the first loss and the last.
"""

from __future__ import annotations

import os
import sys

import horovod.torch as hvd
import torch


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    hvd.init()
    # Every rank sees all GPUs of its node and takes the one of its local number.
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    place = (hvd.rank(), hvd.size(), os.uname().nodename, hvd.local_rank(), device)
    print("rank {0} of {1}: node {2}, local rank {3}, {4}".format(*place), flush=True)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(device)
    # A step sees as many samples as there are ranks times those of one, so the rate grows with them, after a warm-up.
    full_rate, warm_up = 0.01 * hvd.size(), max(1, steps // 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=full_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    # Other data on each rank.
    torch.manual_seed(1 + hvd.rank())
    first = last = 0.0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = full_rate * min(1.0, (step + 1) / warm_up)
        samples = torch.randn(32, 64, device=device)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(samples), samples.mean(1, keepdim=True) * 8)
        loss.backward()
        optimizer.step()
        last = float(hvd.allreduce(loss.detach(), name="loss"))
        first = first if step else last
        if hvd.rank() == 0 and step % max(1, steps // 5) == 0:
            print("step {0}: loss {1:.4f}".format(step, last), flush=True)
    if hvd.rank() == 0:
        print("trained: loss {0:.4f} to {1:.4f}".format(first, last))
    return 0 if last < first else 1


if __name__ == "__main__":
    sys.exit(main())
