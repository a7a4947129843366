/* A library in NVML's place, for machines without a GPU: the functions that Springtide calls through pynvml.
 *
 * Its answers lie in a file that the environment variable NVML_STATE names, laid out as `struct state`, which
 * nvml_library.py has as well. The file is mapped, so a test changes the answers of a running process.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_GPUS = 16, MOST_PROCESSES = 32, MOST_EVENTS = 16 };
enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED = 9,
       TIMEOUT };
enum { XID_EVENTS = 8, NVLINK_SENT = 138, NVLINK_RECEIVED, UNSIGNED_LONG_LONG = 3 };
enum { HANDLE, UUID, NAME, MEMORY, UTILIZATION, POWER, TEMPERATURE, PROCESSES, ECC, NVLINK, PCIE, EVENTS, CALLS };

struct gpu {
    char uuid[96], name[96], bus[32];
    uint64_t memory_total, memory_used, ecc_corrected, ecc_uncorrected, nvlink_received, nvlink_sent;
    uint32_t utilization, power, temperature, pcie_received, pcie_sent, processes, pids[MOST_PROCESSES];
    uint32_t linked; /* bits of the GPUs that NVLink connects it with */
    int32_t whole;   /* index of the GPU of which this is a MIG device, -1 for a whole GPU */
    int32_t errors[CALLS];
};

struct state {
    int32_t init_error;
    uint32_t gpus, events, event_gpu[MOST_EVENTS];
    uint64_t event_xid[MOST_EVENTS];
    struct gpu gpu[MOST_GPUS];
};

struct event { void *device; unsigned long long type, data; unsigned instance, compute; };
struct memory { unsigned long long total, free, used; };
struct utilization { unsigned gpu, memory; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
struct field {
    uint32_t id, scope; int64_t at, latency; unsigned type; int error;
    union { double real; unsigned long long whole; } value;
};

static struct state *state;
static unsigned events_read;
static uint32_t registered;

#define GPU ((struct gpu *)device)
#define FAIL(call) do { if (!state) return UNINITIALIZED; if (GPU->errors[call]) return GPU->errors[call]; } while (0)

static int copy(const char *text, char *to, unsigned size) {
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    const char *name = getenv("NVML_STATE");
    int file = name ? open(name, O_RDWR) : -1;
    (void)flags;
    if (file < 0) return DRIVER_NOT_LOADED;
    struct state *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) return DRIVER_NOT_LOADED;
    if (found->init_error) return found->init_error;
    state = found;
    events_read = registered = 0;
    return SUCCESS;
}

int nvmlShutdown(void) { state = NULL; return SUCCESS; }

const char *nvmlErrorString(int error) { (void)error; return "an error that a test asked for"; }

static int nth(int whole, unsigned index, void **device) {
    for (unsigned at = 0; at < state->gpus; at++)
        if (state->gpu[at].whole == whole && index-- == 0) {
            *device = &state->gpu[at];
            return state->gpu[at].errors[HANDLE];
        }
    return NOT_FOUND;
}

static unsigned count_of(int whole) {
    unsigned count = 0;
    for (unsigned at = 0; at < state->gpus; at++) count += state->gpu[at].whole == whole;
    return count;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!state) return UNINITIALIZED;
    *count = count_of(-1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    return state ? nth(-1, index, device) : UNINITIALIZED;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (!state) return UNINITIALIZED;
    for (unsigned at = 0; at < state->gpus; at++)
        if (!strcmp(state->gpu[at].uuid, uuid)) {
            *device = &state->gpu[at];
            return state->gpu[at].errors[HANDLE];
        }
    return NOT_FOUND;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    FAIL(HANDLE);
    *current = *pending = count_of(GPU - state->gpu) > 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    FAIL(HANDLE);
    *count = count_of(GPU - state->gpu);
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice) {
    FAIL(HANDLE);
    return nth(GPU - state->gpu, index, slice);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *device, void **whole) {
    FAIL(HANDLE);
    if (GPU->whole < 0) return INVALID_ARGUMENT;
    *whole = &state->gpu[GPU->whole];
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) { FAIL(UUID); return copy(GPU->uuid, uuid, size); }

int nvmlDeviceGetName(void *device, char *name, unsigned size) { FAIL(NAME); return copy(GPU->name, name, size); }

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info) {
    FAIL(HANDLE);
    memset(info, 0, sizeof *info);
    return copy(GPU->bus, info->bus_id, sizeof info->bus_id);
}

int nvmlDeviceGetP2PStatus(void *device, void *other, int what, int *status) {
    FAIL(HANDLE);
    (void)what;
    *status = GPU->linked >> ((struct gpu *)other - state->gpu) & 1 ? 0 : 1;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    FAIL(MEMORY);
    *memory = (struct memory){GPU->memory_total, GPU->memory_total - GPU->memory_used, GPU->memory_used};
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates) {
    FAIL(UTILIZATION);
    *rates = (struct utilization){GPU->utilization, 0};
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    FAIL(POWER);
    *milliwatts = GPU->power;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    FAIL(TEMPERATURE);
    if (sensor != 0) return NOT_SUPPORTED;
    *degrees = GPU->temperature;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes) {
    FAIL(PROCESSES);
    unsigned size = *count;
    *count = GPU->processes;
    if (size < GPU->processes) return INSUFFICIENT_SIZE;
    for (unsigned at = 0; at < GPU->processes; at++) processes[at] = (struct process){GPU->pids[at], 0, 0, 0};
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *device, int uncorrected, int counter, unsigned long long *count) {
    FAIL(ECC);
    if (counter != 0) return NOT_SUPPORTED;
    *count = uncorrected ? GPU->ecc_uncorrected : GPU->ecc_corrected;
    return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(void *device, int received, unsigned *rate) {
    FAIL(PCIE);
    *rate = received ? GPU->pcie_received : GPU->pcie_sent;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    FAIL(HANDLE);
    for (int at = 0; at < count; at++) {
        int link = fields[at].id == NVLINK_SENT || fields[at].id == NVLINK_RECEIVED;
        fields[at].error = link && fields[at].scope == UINT32_MAX ? GPU->errors[NVLINK] : NOT_SUPPORTED;
        fields[at].type = UNSIGNED_LONG_LONG;
        fields[at].value.whole = fields[at].id == NVLINK_SENT ? GPU->nvlink_sent : GPU->nvlink_received;
    }
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) {
    if (!state) return UNINITIALIZED;
    *set = state;
    return SUCCESS;
}

int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    FAIL(EVENTS);
    if (types != XID_EVENTS || set != state || GPU->whole >= 0) return INVALID_ARGUMENT;
    registered |= 1u << (GPU - state->gpu);
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
    if (!state || set != state || milliseconds != 0) return INVALID_ARGUMENT;
    while (events_read < state->events) {
        unsigned at = events_read++;
        if (registered >> state->event_gpu[at] & 1) {
            *event = (struct event){&state->gpu[state->event_gpu[at]], XID_EVENTS, state->event_xid[at], ~0u, ~0u};
            return SUCCESS;
        }
    }
    return TIMEOUT;
}
