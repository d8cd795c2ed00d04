// A stand-in for the NVIDIA driver's library, for tests: TRAINYARD_NVML names it, FAKE_NVML a file
// with the state of the machine, read anew by every call, a line for a device:
//
//   NAME UUID MEMORY_MB UTILIZATION USED_MB [mig] [lost] [mute]
//
// '_' in NAME is a space. lost: has no handle. mute: has a handle, and then answers nothing.
// mig: in MIG mode, where the driver tells no utilisation. The lone line "broken" makes nvmlInit
// fail; a file that is not there is a machine without a device.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kSuccess = 0,
  kNotSupported = 3,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kGpuIsLost = 15,
  kVersionMismatch = 25,
  kDevicesMax = 16,
  kReservedMb = 600,  // The first form of the memory's question counts it as used.
};

struct device {
  char name[64];
  char uuid[64];
  unsigned memory_mb;
  unsigned utilization;
  unsigned used_mb;
  int mig;
  int lost;
  int mute;
};

struct machine {
  int broken;
  unsigned count;
  struct device devices[kDevicesMax];
};

static struct machine look(void) {
  struct machine machine;
  memset(&machine, 0, sizeof machine);
  const char* path = getenv("FAKE_NVML");
  FILE* file = path != NULL ? fopen(path, "re") : NULL;
  if (file == NULL) return machine;
  char line[512];
  while (machine.count < kDevicesMax && fgets(line, sizeof line, file) != NULL) {
    struct device device;
    memset(&device, 0, sizeof device);
    if (strncmp(line, "broken", 6) == 0) machine.broken = 1;
    if (sscanf(line, "%63s %63s %u %u %u", device.name, device.uuid, &device.memory_mb,
               &device.utilization, &device.used_mb) != 5) {
      continue;
    }
    for (char* c = device.name; *c != '\0'; ++c) *c = *c == '_' ? ' ' : *c;
    device.mig = strstr(line, " mig") != NULL;
    device.lost = strstr(line, " lost") != NULL;
    device.mute = strstr(line, " mute") != NULL;
    machine.devices[machine.count++] = device;
  }
  fclose(file);
  return machine;
}

// A handle is the device's number plus one; what it says is looked up by every call.
static int find(const void* handle, struct device* device) {
  const struct machine machine = look();
  const uintptr_t number = (uintptr_t)handle;
  if (number == 0 || number > machine.count) return kGpuIsLost;
  *device = machine.devices[number - 1];
  return device->mute || device->lost ? kGpuIsLost : kSuccess;
}

static int put(const char* text, char* buffer, unsigned size) {
  if (strlen(text) >= size) return kInsufficientSize;
  memcpy(buffer, text, strlen(text) + 1);
  return kSuccess;
}

struct memory {
  unsigned long long total, free, used;
};

struct memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct rates {
  unsigned gpu, memory;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char* nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char* version, unsigned size);
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle);
int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned size);
int nvmlDeviceGetName(void* handle, char* name, unsigned size);
int nvmlDeviceGetMemoryInfo(void* handle, struct memory* memory);
int nvmlDeviceGetMemoryInfo_v2(void* handle, struct memory2* memory);
int nvmlDeviceGetUtilizationRates(void* handle, struct rates* rates);
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts);
int nvmlDeviceGetTemperature(void* handle, unsigned sensor, unsigned* degrees);
int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending);
int fake_nvml_open(void);

static int open_count = 0;

// How often it was started and not yet shut down, for the test of that.
int fake_nvml_open(void) { return open_count; }

int nvmlInit_v2(void) {
  if (look().broken) return kDriverNotLoaded;
  ++open_count;
  return kSuccess;
}

int nvmlShutdown(void) {
  --open_count;
  return kSuccess;
}

const char* nvmlErrorString(int code) {
  switch (code) {
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return put("535.129.03", version, size);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = look().count;
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  const struct machine machine = look();
  if (index >= machine.count || machine.devices[index].lost) return kGpuIsLost;
  *handle = (void*)((uintptr_t)index + 1);
  return kSuccess;
}

int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned size) {
  struct device device;
  const int code = find(handle, &device);
  return code != kSuccess ? code : put(device.uuid, uuid, size);
}

int nvmlDeviceGetName(void* handle, char* name, unsigned size) {
  struct device device;
  const int code = find(handle, &device);
  return code != kSuccess ? code : put(device.name, name, size);
}

int nvmlDeviceGetMemoryInfo(void* handle, struct memory* memory) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  memory->total = (unsigned long long)device.memory_mb << 20;
  memory->used = (unsigned long long)(device.used_mb + kReservedMb) << 20;
  memory->free = memory->total - memory->used;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo_v2(void* handle, struct memory2* memory) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  if (memory->version != (sizeof *memory | (2U << 24))) return kVersionMismatch;
  memory->total = (unsigned long long)device.memory_mb << 20;
  memory->reserved = (unsigned long long)kReservedMb << 20;
  memory->used = (unsigned long long)device.used_mb << 20;
  memory->free = memory->total - memory->reserved - memory->used;
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* handle, struct rates* rates) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  if (device.mig) return kNotSupported;
  rates->gpu = device.utilization;
  rates->memory = device.utilization / 2;
  return kSuccess;
}

// Neither power nor temperature has a column: both follow the utilisation.
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  *milliwatts = 50000 + 2500 * device.utilization;
  return kSuccess;
}

int nvmlDeviceGetTemperature(void* handle, unsigned sensor, unsigned* degrees) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  *degrees = sensor == 0 ? 30 + device.utilization / 2 : 0;
  return kSuccess;
}

int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  struct device device;
  const int code = find(handle, &device);
  if (code != kSuccess) return code;
  *current = *pending = device.mig ? 1 : 0;
  return kSuccess;
}
