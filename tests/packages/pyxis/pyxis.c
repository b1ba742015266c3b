/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A real plugin of Slurm that has the first option of pyxis. Where pyxis would start a container, this one tells the job
 * which one it was asked for, so that a test sees that srun knew the option and that the step had the plugin loaded.
 */
#include <stdio.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

static char image[256];

static int take_image(int value, const char *argument, int remote)
{
    (void)value;
    (void)remote;
    return snprintf(image, sizeof(image), "%s", argument) < (int)sizeof(image) ? 0 : -1;
}

static struct spank_option options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] the image to use for the container filesystem", 1, 0,
     take_image},
};

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    if (spank_context() == S_CTX_SLURMD)
        return 0;
    return spank_option_register(spank, &options[0]) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_user_init(spank_t spank, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    return image[0] == '\0' || spank_setenv(spank, "CONTAINER_IMAGE_OF_STEP", image, 1) == ESPANK_SUCCESS ? 0 : -1;
}
