/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Field values: many readings in one call, each with a return code of its own.
 *
 * Which fields exist, and their types, follow the recordings of an H100 and an H200 with driver 580.159.04
 * (tests/hardware/recordings). That other generations answer the same fields with the same types is an assumption, except
 * where nvml.h limits a field to a generation. */
#define _POSIX_C_SOURCE 200809L
#include "call.h"
#include "clocks.h"
#include "ecc.h"
#include "mig.h"
#include "nvlink.h"
#include "power.h"

#include <time.h>

enum {
    FIELD_ECC_CURRENT = 1,
    FIELD_ECC_PENDING = 2,
    FIELD_ECC_SBE_VOLATILE = 3,
    FIELD_ECC_DBE_VOLATILE = 4,
    FIELD_ECC_SBE_AGGREGATE = 5,
    FIELD_ECC_DBE_AGGREGATE = 6,
    FIELD_RETIRED_SBE = 29,
    FIELD_RETIRED_DBE = 30,
    FIELD_RETIRED_PENDING = 31,
    FIELD_LOW_UTILIZATION = 78,
    FIELD_BELOW_APPLICATION_CLOCKS = 80,
    FIELD_BELOW_BASE_CLOCKS = 81,
    FIELD_MEMORY_TEMPERATURE = 82,
    FIELD_ENERGY = 83,
    FIELD_NVLINK_SPEED_L0 = 84, /* to 89; 132 to 137 are links 6 to 11 */
    FIELD_NVLINK_SPEED_L5 = 89,
    FIELD_NVLINK_SPEED_COMMON = 90,
    FIELD_NVLINK_COUNT = 91,
    FIELD_PCIE_REPLAYS = 94,
    FIELD_PCIE_REPLAY_ROLLOVERS = 95,
    FIELD_NVLINK_SPEED_L6 = 132,
    FIELD_NVLINK_SPEED_L11 = 137,
    FIELD_REMAPPED_CORRECTABLE = 142,
    FIELD_REMAPPED_UNCORRECTABLE = 143,
    FIELD_REMAPPED_PENDING = 144,
    FIELD_REMAPPED_FAILURE = 145,
    FIELD_NVSWITCH_LINKS = 147,
    FIELD_NVLINK_REPLAYS = 161, /* one field for all links, whose number is the scope */
    FIELD_NVLINK_RECOVERIES = 162,
    FIELD_NVLINK_CRC_ERRORS = 163,
    FIELD_NVLINK_SPEED = 164,
    FIELD_NVLINK_STATE = 165,
    FIELD_NVLINK_VERSION = 166,
    FIELD_PCIE_L0_TO_RECOVERY = 169,
    FIELD_PCIE_FIRST_COUNTER = 173,
    FIELD_PCIE_LAST_COUNTER = 183,
    FIELD_RESETLESS_MIG = 184,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_POWER_MINIMUM = 187,
    FIELD_POWER_MAXIMUM = 188,
    FIELD_POWER_DEFAULT = 189,
    FIELD_POWER_LIMIT = 190,
    FIELD_ENERGY_BY_SCOPE = 191,
    FIELD_POWER_REQUESTED = 192,
    FIELD_MARGIN_SHUTDOWN = 193,
    FIELD_MARGIN_SLOWDOWN = 194,
    FIELD_MARGIN_MEMORY = 195,
    FIELD_MARGIN_GPU = 196,
    FIELD_PCIE_SENT_BYTES = 197, /* 32 bits, which wrap */
    FIELD_PCIE_RECEIVED_BYTES = 198,
    FIELD_MIG_QUERIES_IN_ANY_MODE = 199,
    FIELD_RESET_STATUS = 226,
    FIELD_DRAIN_AND_RESET_STATUS = 227,
    FIELD_PCIE_OUTBOUND_ATOMICS = 228,
    FIELD_PCIE_INBOUND_ATOMICS = 229,
    FIELD_RECOVERY_ACTION = 230,
    FIELD_SMOOTHING_FIRST = 251,
    FIELD_SMOOTHING_LAST_ANSWERED = 256,
    FIELD_REMAPPED_CORRECTABLE_INACTIVE = 301,
    FIELD_REMAPPED_UNCORRECTABLE_INACTIVE = 302,
};

/* nvmlDeviceGpuRecoveryAction_t: what the two older fields report in part. */
enum { RECOVERY_RESET = 1, RECOVERY_DRAIN_AND_RESET = 4 };

/* NVML_FI_MAX, one more than the highest field, in the nvml.h that came with each branch (as in entry_points.h). */
static const struct {
    int branch;
    unsigned int end;
} fields_of_branch[] = {
    {0, 147},   {460, 148}, {470, 161}, {520, 167}, {525, 170}, {535, 197}, {550, 200},
    {555, 223}, {560, 230}, {570, 269}, {575, 274}, {590, 289}, {595, 303},
};

/* Does this driver know the field, whether or not the GPU has it? An unknown one is an invalid argument. */
static bool known(unsigned int id)
{
    unsigned int end = 0;
    for (size_t i = 0; i < sizeof(fields_of_branch) / sizeof(fields_of_branch[0]); i++)
        if (driver_branch() >= fields_of_branch[i].branch)
            end = fields_of_branch[i].end;
    if (id >= 296 && id <= 300)
        return driver_branch() >= 610; /* first named by the header of CUDA 13.3, below the end of that of 13.2 */
    /* 580.159.04 knows some fields of later headers; with which release they came is not known. */
    if (driver_branch() == 580 && driver_at_least(580, 159) &&
        ((id >= 275 && id <= 288) || id == 294 || id == 295 || id == 301 || id == 302))
        return true;
    return id > 0 && id < end;
}

static nvmlReturn_t number(nvmlFieldValue_t *field, long long value)
{
    SUPPORTED(value >= 0);
    field->valueType = NVML_VALUE_UINT;
    field->value.uiVal = (unsigned int)value;
    return NVML_SUCCESS;
}

static nvmlReturn_t wide(nvmlFieldValue_t *field, unsigned long long value)
{
    field->valueType = NVML_VALUE_ULL;
    field->value.ullVal = value;
    return NVML_SUCCESS;
}

/* Success without a type and a value: the caller's structure stays as it was. */
static nvmlReturn_t nothing(bool supported)
{
    SUPPORTED(supported);
    return NVML_SUCCESS;
}

static nvmlReturn_t recovery(int gpu, nvmlFieldValue_t *field)
{
    const char *action = layer_get(FAULTS, gpu, "recovery_action");
    long long value = 0;
    SUPPORTED(state_flag(gpu, "feature.recovery_action", false));
    if (action != NULL)
        (void)parse_number(action, &value);
    if (field->fieldId == FIELD_RESET_STATUS)
        return number(field, value == RECOVERY_RESET);
    if (field->fieldId == FIELD_DRAIN_AND_RESET_STATUS)
        return number(field, value == RECOVERY_DRAIN_AND_RESET);
    return number(field, value);
}

static nvmlReturn_t counter(int gpu, nvmlFieldValue_t *field, unsigned int type, unsigned int kind)
{
    SUPPORTED(ecc_supported(gpu) && ecc_current(gpu));
    return wide(field, ecc_total(gpu, type, kind));
}

static nvmlReturn_t margin(int gpu, nvmlFieldValue_t *field, const char *key)
{
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_ADA) && state_has(gpu, key) && state_has(gpu, "temperature.gpu_max"));
    field->valueType = NVML_VALUE_INT; /* degrees that are left below the GPU's own limit: negative beyond it */
    field->value.siVal = (int)(state_number(gpu, "temperature.gpu_max", 0) - state_number(gpu, key, 0));
    return NVML_SUCCESS;
}

/* Errors of the link that the scope names. Hopper has the fields of the data link layer; nvml.h calls them unsupported
 * from Blackwell on, where each kind of bad packet has a field of its own. */
static nvmlReturn_t nvlink_error_field(int gpu, nvmlFieldValue_t *field)
{
    unsigned int id = field->fieldId, link = field->scopeId;
    bool packets = architecture_at_least(gpu, NVML_ARCH_BLACKWELL);
    bool data_link = state_flag(gpu, "feature.nvlink_error_fields", architecture_at_least(gpu, NVML_ARCH_HOPPER) && !packets);
    SUPPORTED(nvlink_count(gpu) > 0 && (id >= NVLINK_MALFORMED_PACKETS ? packets : data_link));
    ARGUMENT(link < nvlink_count(gpu));
    switch (id) {
    case FIELD_NVLINK_REPLAYS:
        return wide(field, nvlink_errors(gpu, link, NVLINK_REPLAY));
    case FIELD_NVLINK_RECOVERIES:
    case NVLINK_RECOVERIES_SUCCEEDED:
        return wide(field, nvlink_errors(gpu, link, NVLINK_RECOVERY));
    case FIELD_NVLINK_CRC_ERRORS:
        return wide(field, nvlink_errors(gpu, link, NVLINK_CRC_FLIT) + nvlink_errors(gpu, link, NVLINK_CRC_DATA));
    case NVLINK_RECOVERY_EVENTS:
        return wide(field, nvlink_errors(gpu, link, NVLINK_RECOVERY) + nvlink_errors(gpu, link, NVLINK_RECOVERIES_FAILED));
    default:
        SUPPORTED(id < 216 || id > 218); /* bit error rates by lane: "deprecated, do not use" */
        return wide(field, nvlink_errors(gpu, link, id));
    }
}

static nvmlReturn_t nvlink_field(int gpu, nvmlFieldValue_t *field)
{
    unsigned int id = field->fieldId, link = field->scopeId;
    SUPPORTED(nvlink_count(gpu) > 0);
    if (id == FIELD_NVLINK_COUNT)
        return number(field, nvlink_count(gpu));
    if (id == FIELD_NVLINK_SPEED_COMMON)
        return number(field, nvlink_speed_mbps(gpu));
    if (id >= FIELD_NVLINK_SPEED_L0 && id <= FIELD_NVLINK_SPEED_L5)
        link = id - FIELD_NVLINK_SPEED_L0;
    if (id >= FIELD_NVLINK_SPEED_L6 && id <= FIELD_NVLINK_SPEED_L11)
        link = 6 + id - FIELD_NVLINK_SPEED_L6;
    ARGUMENT(link < nvlink_count(gpu));
    if (id == FIELD_NVLINK_STATE)
        return number(field, nvlink_active(gpu, link));
    if (id == FIELD_NVLINK_VERSION)
        return number(field, state_number(gpu, "nvlink.version", -1));
    return number(field, nvlink_active(gpu, link) ? nvlink_speed_mbps(gpu) : 0);
}

static nvmlReturn_t read_field(int gpu, nvmlFieldValue_t *field)
{
    bool remap = state_flag(gpu, "feature.row_remap", false), pages = state_flag(gpu, "feature.page_retirement", false);
    unsigned int id = field->fieldId;
    ARGUMENT(known(id));
    unsigned long long ns;
    if (slowed_ns(gpu, id, &ns))
        return wide(field, ns);
    switch (id) {
    case FIELD_ECC_CURRENT:
        SUPPORTED(ecc_supported(gpu));
        return wide(field, ecc_current(gpu));
    case FIELD_ECC_PENDING:
        SUPPORTED(ecc_supported(gpu));
        return wide(field, ecc_pending(gpu));
    case FIELD_ECC_SBE_VOLATILE:
        return counter(gpu, field, NVML_CORRECTED, NVML_VOLATILE_ECC);
    case FIELD_ECC_DBE_VOLATILE:
        return counter(gpu, field, NVML_UNCORRECTED, NVML_VOLATILE_ECC);
    case FIELD_ECC_SBE_AGGREGATE:
        return counter(gpu, field, NVML_CORRECTED, NVML_AGGREGATE_ECC);
    case FIELD_ECC_DBE_AGGREGATE:
        return counter(gpu, field, NVML_UNCORRECTED, NVML_AGGREGATE_ECC);
    case FIELD_RETIRED_SBE:
    case FIELD_RETIRED_DBE:
        return number(field, pages ? (long long)retired_pages(gpu, id - FIELD_RETIRED_SBE, NULL, NULL, 0) : -1);
    case FIELD_RETIRED_PENDING:
        return number(field, pages ? state_flag(gpu, "latched.retired_pending", false) : -1);
    case FIELD_LOW_UTILIZATION: /* these three count from the start of the driver on a GPU that idles */
    case FIELD_BELOW_APPLICATION_CLOCKS:
    case FIELD_BELOW_BASE_CLOCKS:
        return wide(field, monotonic_ns());
    case FIELD_MEMORY_TEMPERATURE:
        return number(field, state_number(gpu, "temperature.memory", -1));
    case FIELD_ENERGY:
    case FIELD_ENERGY_BY_SCOPE:
        return wide(field, energy_mj(gpu));
    case FIELD_PCIE_REPLAYS:
        return number(field, state_number(gpu, "pcie.replays", 0));
    case FIELD_PCIE_REPLAY_ROLLOVERS:
        return number(field, 0);
    case FIELD_REMAPPED_CORRECTABLE:
        SUPPORTED(remap);
        return wide(field, (unsigned long long)state_number(gpu, "remap.correctable", 0));
    case FIELD_REMAPPED_UNCORRECTABLE:
        SUPPORTED(remap);
        return wide(field, (unsigned long long)state_number(gpu, "remap.uncorrectable", 0));
    case FIELD_REMAPPED_PENDING:
        SUPPORTED(remap);
        return wide(field, state_flag(gpu, "latched.remap_pending", false));
    case FIELD_REMAPPED_FAILURE:
        SUPPORTED(remap);
        return wide(field, state_flag(gpu, "remap.failure", false));
    case FIELD_REMAPPED_CORRECTABLE_INACTIVE:
    case FIELD_REMAPPED_UNCORRECTABLE_INACTIVE:
        SUPPORTED(remap);
        return wide(field, 0);
    case FIELD_NVSWITCH_LINKS:
        if (nvlink_count(gpu) == 0)
            return nothing(true);
        return number(field, state_flag(gpu, "feature.nvswitch", false) ? nvlink_count(gpu) : 0);
    case FIELD_RESETLESS_MIG:
        return number(field, state_flag(gpu, "feature.mig", false) ? architecture_at_least(gpu, NVML_ARCH_HOPPER) : -1);
    case FIELD_POWER_AVERAGE:
    case FIELD_POWER_INSTANT:
        return number(field, power_usage_mw(gpu));
    case FIELD_POWER_MINIMUM: /* the calls report the limits */
    case FIELD_POWER_MAXIMUM:
    case FIELD_POWER_DEFAULT:
    case FIELD_POWER_LIMIT:
    case FIELD_POWER_REQUESTED:
        return nothing(power_limit_mw(gpu) >= 0);
    case FIELD_MARGIN_SHUTDOWN:
        return margin(gpu, field, "temperature.shutdown");
    case FIELD_MARGIN_SLOWDOWN:
        return margin(gpu, field, "temperature.slowdown");
    case FIELD_MARGIN_MEMORY: /* below the limit of the memory itself: 0 on an H100, whose limits are 95 and 87 */
        SUPPORTED(state_has(gpu, "temperature.memory_max"));
        return margin(gpu, field, "temperature.gpu_max");
    case FIELD_MARGIN_GPU:
        return margin(gpu, field, "temperature.gpu_max");
    case FIELD_MIG_QUERIES_IN_ANY_MODE:
        return number(field, state_flag(gpu, "feature.mig", false) ? mig_queries_in_any_mode(gpu) : -1);
    case FIELD_RESET_STATUS:
    case FIELD_DRAIN_AND_RESET_STATUS:
    case FIELD_RECOVERY_ACTION:
        return recovery(gpu, field);
    case FIELD_PCIE_L0_TO_RECOVERY:
    case FIELD_PCIE_SENT_BYTES:
    case FIELD_PCIE_RECEIVED_BYTES:
    case FIELD_PCIE_OUTBOUND_ATOMICS:
    case FIELD_PCIE_INBOUND_ATOMICS:
        return number(field, architecture_at_least(gpu, NVML_ARCH_AMPERE) ? 0 : -1);
    default:
        if (id >= FIELD_PCIE_FIRST_COUNTER && id <= FIELD_PCIE_LAST_COUNTER)
            return number(field, architecture_at_least(gpu, NVML_ARCH_AMPERE) ? 0 : -1);
        if (id >= FIELD_SMOOTHING_FIRST && id <= FIELD_SMOOTHING_LAST_ANSWERED)
            return nothing(architecture_at_least(gpu, NVML_ARCH_HOPPER)); /* and has no power smoothing */
        if (id == FIELD_NVLINK_COUNT || id == FIELD_NVLINK_SPEED || id == FIELD_NVLINK_STATE || id == FIELD_NVLINK_VERSION ||
            (id >= FIELD_NVLINK_SPEED_L0 && id <= FIELD_NVLINK_SPEED_COMMON) ||
            (id >= FIELD_NVLINK_SPEED_L6 && id <= FIELD_NVLINK_SPEED_L11))
            return nvlink_field(gpu, field);
        if ((id >= FIELD_NVLINK_REPLAYS && id <= FIELD_NVLINK_CRC_ERRORS) ||
            (id >= NVLINK_MALFORMED_PACKETS && id <= NVLINK_SYMBOL_BER))
            return nvlink_error_field(gpu, field);
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    DEVICE_CALL(device);
    ARGUMENT(values != NULL && count > 0);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].nvmlReturn = read_field(gpu, &values[i]);
        values[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
    }
    return NVML_SUCCESS;
}
