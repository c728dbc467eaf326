/* A stand-in for NVIDIA's libnvidia-ml.so.1: simulated GPUs for the demo and for tests of the real pynvml calls.
 *
 * The text file named by LOADERWATCH_NVML_SCRIPT says what there is; it is read again when it changes. One statement a line:
 *
 *   gpu                               the next GPU; the lines that follow describe it
 *   uuid GPU-...                      name TEXT          begin names with "loaderwatch simulated"
 *   memory USED TOTAL   (bytes)       power IDLE MAX     (watts)
 *   clock IDLE MAX      (MHz)         memory_clock MHZ
 *   pids PID...                       processes that run on it; each has an equal share of what is used and busy
 *   process PID BYTES PERCENT         one that has this much memory (-1: not told) and of the SMs (0: no sample)
 *   busy PATH                         three int64: busy nanoseconds so far, CLOCK_MONOTONIC since which it is busy (or 0), pid (or 0)
 *   util PERCENT                      a fixed utilization instead
 *   throttle REASONS MHZ              while busy it clocks no higher, for these reasons (bits of nvml.h)
 *   mig UUID PID...                   a slice of it and the processes that run there; one line each
 *   error FUNCTION NVML_ERROR_NAME    the function fails; before the first "gpu" on all, FUNCTION may be *
 *   slow FUNCTION MILLISECONDS        the function takes this long
 *
 * Utilization is the busy share of the last half second, as a driver's is of its own last window.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int nvmlReturn_t;
enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef struct { unsigned int pid; unsigned long long timeStamp; unsigned int smUtil, memUtil, encUtil, decUtil; } nvmlProcessUtilizationSample_t;

#define MAX_GPUS 16
#define MAX_SLICES 8
#define MAX_PIDS 64
#define MAX_FAULTS 32
#define HISTORY 64
#define WINDOW_NS 500000000LL
#define SAMPLE_US 166667ULL /* between two samples of the processes */
#define NOT_TOLD 0xFFFFFFFFFFFFFFFFULL

static const struct { const char *name; int code; const char *text; } ERRORS[] = {
    {"NVML_SUCCESS", 0, "Success"},
    {"NVML_ERROR_UNINITIALIZED", 1, "Uninitialized"},
    {"NVML_ERROR_INVALID_ARGUMENT", 2, "Invalid Argument"},
    {"NVML_ERROR_NOT_SUPPORTED", 3, "Not Supported"},
    {"NVML_ERROR_NO_PERMISSION", 4, "Insufficient Permissions"},
    {"NVML_ERROR_NOT_FOUND", 6, "Not Found"},
    {"NVML_ERROR_INSUFFICIENT_SIZE", 7, "Insufficient Size"},
    {"NVML_ERROR_DRIVER_NOT_LOADED", 9, "Driver Not Loaded"},
    {"NVML_ERROR_TIMEOUT", 10, "Timeout"},
    {"NVML_ERROR_FUNCTION_NOT_FOUND", 13, "Function Not Found"},
    {"NVML_ERROR_GPU_IS_LOST", 15, "GPU is lost"},
    {"NVML_ERROR_RESET_REQUIRED", 16, "GPU requires reset"},
    {"NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18, "Driver/library version mismatch"},
    {"NVML_ERROR_UNKNOWN", 999, "Unknown Error"},
};

typedef struct { char function[64]; int code; int slow_ms; } fault_t;
typedef struct { int64_t at, busy; } point_t;
struct gpu;
typedef struct { unsigned int pid; int shares; unsigned long long used; int sm; } process_t; /* shares: an equal part, whatever else */
typedef struct { struct gpu *parent; char uuid[96]; process_t processes[MAX_PIDS]; int n_processes; } slice_t;
typedef struct gpu {
    char uuid[96], name[96], busy_path[1024];
    double power_idle, power_max;
    unsigned int clock_idle, clock_max, memory_clock, throttle_clock;
    unsigned long long used, total, throttle;
    process_t processes[MAX_PIDS];
    int n_processes, util, n_slices, n_faults;
    slice_t slices[MAX_SLICES];
    fault_t faults[MAX_FAULTS];
    const volatile int64_t *busy; /* not part of the script: kept when it is read again */
    point_t history[HISTORY];
    int newest, n_history;
    double celsius;
} gpu_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_t gpus[MAX_GPUS];
static int n_gpus, n_faults, initialized;
static fault_t faults[MAX_FAULTS];
static struct timespec script_time;
static int64_t looked_at;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void map_busy(gpu_t *g) {
    if (g->busy || !g->busy_path[0]) return;
    int fd = open(g->busy_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size >= 24) {
        void *p = mmap(NULL, 24, PROT_READ, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) g->busy = p;
    }
    close(fd);
}

/* Returns how many there are then. */
static int parse_pids(const char *text, process_t *list, int n) {
    char *end;
    for (unsigned long pid; n < MAX_PIDS && (pid = strtoul(text, &end, 10), end != text); text = end)
        list[n++] = (process_t){(unsigned)pid, 1, 0, 0};
    return n;
}

static void parse_line(char *line, gpu_t **current) {
    char *rest = line + strcspn(line, " \t\n");
    if (*rest) *rest++ = 0;
    rest += strspn(rest, " \t");
    rest[strcspn(rest, "\n")] = 0;
    gpu_t *g = *current;
    char a[64] = "", b[64] = "";
    if (!strcmp(line, "gpu")) {
        if (n_gpus >= MAX_GPUS) return;
        g = *current = &gpus[n_gpus++];
        g->busy_path[0] = 0;
        g->n_processes = g->n_slices = g->n_faults = 0;
        g->util = -1;
        g->power_idle = 60, g->power_max = 350;
        g->throttle = 0;
        g->clock_idle = 210, g->clock_max = 1980, g->memory_clock = 2619;
        g->used = 1ULL << 30, g->total = 80ULL << 30;
        snprintf(g->uuid, sizeof g->uuid, "GPU-00000000-0000-0000-0000-%012d", n_gpus - 1);
        snprintf(g->name, sizeof g->name, "loaderwatch simulated GPU");
    } else if (!strcmp(line, "error") || !strcmp(line, "slow")) {
        if (sscanf(rest, "%63s %63s", a, b) != 2) return;
        int *n = g ? &g->n_faults : &n_faults;
        if (*n >= MAX_FAULTS) return;
        fault_t *f = g ? &g->faults[(*n)++] : &faults[(*n)++];
        snprintf(f->function, sizeof f->function, "%s", a);
        f->code = f->slow_ms = 0;
        if (line[0] == 's') f->slow_ms = atoi(b);
        else {
            f->code = 999;
            for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
                if (!strcmp(ERRORS[i].name, b)) f->code = ERRORS[i].code;
        }
    } else if (!g) {
        return;
    } else if (!strcmp(line, "uuid")) {
        snprintf(g->uuid, sizeof g->uuid, "%s", rest);
    } else if (!strcmp(line, "name")) {
        snprintf(g->name, sizeof g->name, "%s", rest);
    } else if (!strcmp(line, "memory")) {
        sscanf(rest, "%llu %llu", &g->used, &g->total);
    } else if (!strcmp(line, "power")) {
        sscanf(rest, "%lf %lf", &g->power_idle, &g->power_max);
    } else if (!strcmp(line, "clock")) {
        sscanf(rest, "%u %u", &g->clock_idle, &g->clock_max);
    } else if (!strcmp(line, "memory_clock")) {
        sscanf(rest, "%u", &g->memory_clock);
    } else if (!strcmp(line, "util")) {
        g->util = atoi(rest);
    } else if (!strcmp(line, "throttle")) {
        if (sscanf(rest, "%llu %u", &g->throttle, &g->throttle_clock) != 2) g->throttle = 0;
    } else if (!strcmp(line, "busy")) {
        snprintf(g->busy_path, sizeof g->busy_path, "%s", rest);
    } else if (!strcmp(line, "mig") && g->n_slices < MAX_SLICES) {
        slice_t *s = &g->slices[g->n_slices++];
        s->parent = g;
        int length = (int)strcspn(rest, " \t");
        snprintf(s->uuid, sizeof s->uuid, "%.*s", length, rest);
        s->n_processes = parse_pids(rest + length, s->processes, 0);
    } else if (!strcmp(line, "pids")) {
        g->n_processes = parse_pids(rest, g->processes, g->n_processes);
    } else if (!strcmp(line, "process") && g->n_processes < MAX_PIDS) {
        long long used;
        process_t p = {0};
        if (sscanf(rest, "%u %lld %d", &p.pid, &used, &p.sm) != 3) return;
        p.used = used < 0 ? NOT_TOLD : (unsigned long long)used;
        g->processes[g->n_processes++] = p;
    }
}

static void read_script(void) {
    const char *path = getenv("LOADERWATCH_NVML_SCRIPT");
    struct stat st;
    int64_t now = now_ns();
    if (!path || (looked_at && now - looked_at < 20000000LL)) return;
    looked_at = now;
    if (stat(path, &st) || (st.st_mtim.tv_sec == script_time.tv_sec && st.st_mtim.tv_nsec == script_time.tv_nsec)) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    script_time = st.st_mtim;
    n_gpus = n_faults = 0;
    gpu_t *current = NULL;
    char line[2048], old[MAX_GPUS][1024];
    for (int i = 0; i < MAX_GPUS; i++) snprintf(old[i], sizeof old[i], "%s", gpus[i].busy_path);
    while (fgets(line, sizeof line, file)) {
        char *start = line + strspn(line, " \t\n");
        if (*start && *start != '#') parse_line(start, &current);
    }
    fclose(file);
    for (int i = 0; i < n_gpus; i++)
        if (gpus[i].busy && strcmp(old[i], gpus[i].busy_path)) { /* another file: begin anew */
            munmap((void *)gpus[i].busy, 24);
            gpus[i].busy = NULL;
            gpus[i].n_history = 0;
        }
}

static int find_fault(const fault_t *list, int n, const char *function, int device, int *slow_ms) {
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].function, function) && !(device && !strcmp(list[i].function, "*"))) continue;
        if (list[i].slow_ms) *slow_ms = list[i].slow_ms;
        else return list[i].code;
    }
    return OK;
}

/* Every function begins with this; it returns with the lock held if the result is OK. */
static nvmlReturn_t enter(const char *function, const gpu_t *g) {
    int slow_ms = 0;
    pthread_mutex_lock(&lock);
    read_script();
    int code = find_fault(faults, n_faults, function, g != NULL, &slow_ms);
    if (code == OK && g) {
        if (g < gpus || g >= gpus + n_gpus) code = INVALID_ARGUMENT;
        else code = find_fault(g->faults, g->n_faults, function, 1, &slow_ms);
    }
    if (slow_ms) {
        struct timespec t = {slow_ms / 1000, slow_ms % 1000 * 1000000L};
        pthread_mutex_unlock(&lock);
        nanosleep(&t, NULL);
        pthread_mutex_lock(&lock);
    }
    if (code == OK && !initialized && strcmp(function, "nvmlInit")) code = UNINITIALIZED;
    if (code != OK) pthread_mutex_unlock(&lock);
    return code;
}

static nvmlReturn_t leave(void) {
    pthread_mutex_unlock(&lock);
    return OK;
}

#define ENTER(function, gpu) do { nvmlReturn_t code_ = enter(function, gpu); if (code_ != OK) return code_; } while (0)
#define FAIL(code) do { pthread_mutex_unlock(&lock); return code; } while (0)

static slice_t *as_slice(void *handle) {
    for (int i = 0; i < MAX_GPUS; i++)
        for (int j = 0; j < MAX_SLICES; j++)
            if (handle == &gpus[i].slices[j]) return &gpus[i].slices[j];
    return NULL;
}

static gpu_t *as_gpu(void *handle) {
    slice_t *s = as_slice(handle);
    return s ? s->parent : handle;
}

/* Busy share of the last window, 0 to 1. */
static double duty(gpu_t *g) {
    if (g->util >= 0) return g->util / 100.0;
    map_busy(g);
    if (!g->busy) return 0;
    int64_t done = g->busy[0], since = g->busy[1], now = now_ns(); /* in this order: the writer clears "since" first */
    int64_t busy = done + (since > 0 && now > since ? now - since : 0);
    point_t *newest = &g->history[g->newest];
    if (g->n_history && busy < newest->busy) busy = newest->busy;
    if (!g->n_history || now - newest->at >= 10000000LL) {
        g->newest = g->n_history ? (g->newest + 1) % HISTORY : 0;
        if (g->n_history < HISTORY) g->n_history++;
        g->history[g->newest] = (point_t){now, busy};
    }
    point_t *from = NULL; /* the youngest point that is a window old, else the oldest there is */
    for (int i = 0; i < g->n_history; i++) {
        from = &g->history[(g->newest - i + HISTORY) % HISTORY];
        if (now - from->at >= WINDOW_NS) break;
    }
    if (!from || now <= from->at) return since > 0;
    double share = (double)(busy - from->busy) / (double)(now - from->at);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    if (!getenv("LOADERWATCH_NVML_SCRIPT")) return DRIVER_NOT_LOADED;
    ENTER("nvmlInit", NULL);
    initialized++;
    return leave();
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    ENTER("nvmlShutdown", NULL);
    initialized--;
    return leave();
}

const char *nvmlErrorString(nvmlReturn_t code) {
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) return ERRORS[i].text;
    return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER("nvmlSystemGetDriverVersion", NULL);
    snprintf(version, length, "simulated");
    return leave();
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER("nvmlDeviceGetCount", NULL);
    *count = (unsigned)n_gpus;
    return leave();
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    ENTER("nvmlDeviceGetHandleByIndex", NULL);
    if (index >= (unsigned)n_gpus) FAIL(INVALID_ARGUMENT);
    int slow_ms = 0, code = find_fault(gpus[index].faults, gpus[index].n_faults, "nvmlDeviceGetHandleByIndex", 1, &slow_ms);
    if (code != OK) FAIL(code);
    *handle = &gpus[index];
    return leave();
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    ENTER("nvmlDeviceGetHandleByUUID", NULL);
    for (int i = 0; i < n_gpus; i++) {
        if (!strcmp(gpus[i].uuid, uuid)) { *handle = &gpus[i]; return leave(); }
        for (int j = 0; j < gpus[i].n_slices; j++)
            if (!strcmp(gpus[i].slices[j].uuid, uuid)) { *handle = &gpus[i].slices[j]; return leave(); }
    }
    FAIL(NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetName", g);
    snprintf(name, length, "%s%s", g->name, as_slice(device) ? " MIG slice" : "");
    return leave();
}

nvmlReturn_t nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    slice_t *s = as_slice(device);
    ENTER("nvmlDeviceGetUUID", as_gpu(device));
    snprintf(uuid, length, "%s", s ? s->uuid : ((gpu_t *)device)->uuid);
    return leave();
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(void *device, nvmlUtilization_t *rates) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetUtilizationRates", g);
    if (g->n_slices) FAIL(NOT_SUPPORTED); /* neither of a slice, nor of the GPU that is cut */
    double share = duty(g);
    rates->gpu = (unsigned)(share * 100 + 0.5);
    rates->memory = (unsigned)(share * 45 + 0.5);
    return leave();
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(void *device, nvmlMemory_t *memory) {
    gpu_t *g = as_gpu(device);
    unsigned long long parts = as_slice(device) ? (unsigned long long)g->n_slices : 1;
    ENTER("nvmlDeviceGetMemoryInfo", g);
    memory->total = g->total / parts;
    memory->used = g->used / parts;
    memory->free = memory->total - memory->used;
    return leave();
}

nvmlReturn_t nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetPowerUsage", g);
    *milliwatts = (unsigned)((g->power_idle + (g->power_max - g->power_idle) * 0.9 * duty(g)) * 1000);
    return leave();
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *milliwatts) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetEnforcedPowerLimit", g);
    *milliwatts = (unsigned)(g->power_max * 1000);
    return leave();
}

nvmlReturn_t nvmlDeviceGetClockInfo(void *device, unsigned int kind, unsigned int *mhz) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetClockInfo", g);
    *mhz = kind == 2 ? g->memory_clock : duty(g) <= 0.02 ? g->clock_idle : g->throttle ? g->throttle_clock : g->clock_max; /* 2: NVML_CLOCK_MEM */
    return leave();
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(void *device, unsigned int counter, unsigned int *kib_per_s) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetPcieThroughput", g);
    *kib_per_s = (unsigned)(duty(g) * (counter ? 1500000 : 120000)); /* 1: NVML_PCIE_UTIL_RX_BYTES */
    return leave();
}

nvmlReturn_t nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *celsius) {
    gpu_t *g = as_gpu(device);
    (void)sensor;
    ENTER("nvmlDeviceGetTemperature", g);
    double goal = 34 + (g->throttle ? 58 : 38) * duty(g);
    g->celsius = g->celsius ? g->celsius + 0.05 * (goal - g->celsius) : goal;
    *celsius = (unsigned)(g->celsius + 0.5);
    return leave();
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetCurrentClocksEventReasons", g);
    *reasons = duty(g) > 0.02 ? g->throttle : 1; /* 1: the GPU is idle */
    return leave();
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

/* The processes of a GPU, with those of its slices, or of a slice; as many as fit. */
static unsigned int running(void *device, process_t *list) {
    gpu_t *g = as_gpu(device);
    slice_t *s = as_slice(device);
    unsigned int n = 0, shares = 0;
    double busy = duty(g);
    for (int i = 0; s && i < s->n_processes; i++) list[n++] = s->processes[i];
    for (int i = 0; !s && i < g->n_processes; i++) list[n++] = g->processes[i];
    for (int j = 0; !s && j < g->n_slices; j++)
        for (int i = 0; i < g->slices[j].n_processes && n < MAX_PIDS; i++) list[n++] = g->slices[j].processes[i];
    map_busy(g);
    if (!s && g->busy && g->busy[2] > 0) list[n++] = (process_t){(unsigned)g->busy[2], 1, 0, 0};
    for (unsigned int i = 0; i < n; i++) shares += (unsigned)list[i].shares;
    for (unsigned int i = 0; i < n; i++)
        if (list[i].shares) {
            list[i].used = g->used / (s ? (unsigned)g->n_slices : 1) / shares;
            list[i].sm = (int)(busy * 100 / shares + 0.5);
        }
    return n;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, nvmlProcessInfo_t *infos) {
    process_t list[MAX_PIDS + 1];
    ENTER("nvmlDeviceGetComputeRunningProcesses", as_gpu(device));
    unsigned int room = *count, found = running(device, list);
    *count = found;
    if (found > room) FAIL(INSUFFICIENT_SIZE);
    for (unsigned int i = 0; i < found; i++)
        infos[i] = (nvmlProcessInfo_t){list[i].pid, list[i].used, 0xFFFFFFFFu, 0xFFFFFFFFu};
    return leave();
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(void *device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long since_us) {
    gpu_t *g = as_gpu(device);
    process_t list[MAX_PIDS + 1];
    ENTER("nvmlDeviceGetProcessUtilization", g);
    if (g->n_slices) FAIL(NOT_SUPPORTED);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    unsigned long long at_us = ((unsigned long long)t.tv_sec * 1000000ULL + (unsigned long long)t.tv_nsec / 1000) / SAMPLE_US * SAMPLE_US;
    unsigned int room = *count, found = 0, n = running(device, list);
    for (unsigned int i = 0; i < n; i++) /* idle processes have no sample */
        if (list[i].sm > 0) list[found++] = list[i];
    if (!found || at_us <= since_us) FAIL(NOT_FOUND);
    *count = found;
    if (!samples || found > room) FAIL(INSUFFICIENT_SIZE);
    for (unsigned int i = 0; i < found; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){list[i].pid, at_us, (unsigned)list[i].sm, 0, 0, 0};
    return leave();
}

nvmlReturn_t nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *pending) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetMigMode", g);
    *now = *pending = g->n_slices > 0;
    return leave();
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetMaxMigDeviceCount", g);
    *count = (unsigned)g->n_slices;
    return leave();
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **handle) {
    gpu_t *g = as_gpu(device);
    ENTER("nvmlDeviceGetMigDeviceHandleByIndex", g);
    if (index >= (unsigned)g->n_slices) FAIL(NOT_FOUND);
    *handle = &g->slices[index];
    return leave();
}
