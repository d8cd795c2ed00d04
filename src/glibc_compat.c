// What our code and Debian 12's static libraries use of glibc that 2.31 lacks; part of
// trainyard-portable alone (cmake/portable.cmake). Hidden, so that shared libraries which are
// loaded later keep using their own glibc's.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// libstdc++ leaves out atomic operations where this is true. Nothing here can maintain it.
HIDDEN char __libc_single_threaded = 0;

HIDDEN int close_range(unsigned first, unsigned last, int flags) {
  return (int)syscall(SYS_close_range, first, last, flags);
}

HIDDEN const char* strerrordesc_np(int code) { return strerror(code); }

HIDDEN const char* sigabbrev_np(int number) {
  static const char* const names[] = {
      [SIGHUP] = "HUP",       [SIGINT] = "INT",   [SIGQUIT] = "QUIT",  [SIGILL] = "ILL",
      [SIGTRAP] = "TRAP",     [SIGABRT] = "ABRT", [SIGBUS] = "BUS",    [SIGFPE] = "FPE",
      [SIGKILL] = "KILL",     [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",  [SIGUSR2] = "USR2",
      [SIGPIPE] = "PIPE",     [SIGALRM] = "ALRM", [SIGTERM] = "TERM",  [SIGSTKFLT] = "STKFLT",
      [SIGCHLD] = "CHLD",     [SIGCONT] = "CONT", [SIGSTOP] = "STOP",  [SIGTSTP] = "TSTP",
      [SIGTTIN] = "TTIN",     [SIGTTOU] = "TTOU", [SIGURG] = "URG",    [SIGXCPU] = "XCPU",
      [SIGXFSZ] = "XFSZ",     [SIGPROF] = "PROF", [SIGIO] = "POLL",    [SIGPWR] = "PWR",
      [SIGVTALRM] = "VTALRM", [SIGSYS] = "SYS",   [SIGWINCH] = "WINCH"};
  const int count = (int)(sizeof names / sizeof *names);
  return number > 0 && number < count ? names[number] : NULL;
}

struct Search {
  ElfW(Addr) address;
  struct dl_find_object* found;
};

static int covers(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct Search* search = data;
  const ElfW(Phdr)* frames = NULL;
  ElfW(Addr) begin = 0;
  ElfW(Addr) end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    if (part->p_type == PT_GNU_EH_FRAME) frames = part;
    if (part->p_type != PT_LOAD) continue;
    const ElfW(Addr) from = object->dlpi_addr + part->p_vaddr;
    if (search->address < from || search->address >= from + part->p_memsz) continue;
    begin = from;
    end = from + part->p_memsz;
  }
  if (end == 0 || frames == NULL) return 0;
  search->found->dlfo_map_start = (void*)begin;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_eh_frame = (void*)(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

// libgcc's unwinder asks this for the frames of an address, once per frame of a C++ exception.
HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(ElfW(Addr))address, found};
  return dl_iterate_phdr(covers, &search) == 1 ? 0 : -1;
}
