// Stands before sbatch in the PATH of a server that is measured, and notes, in the file
// sbatch.stamps beside itself, when it was called and when sbatch was done: two times of the wall
// clock in nanoseconds. What is in sbatch.first becomes the script's first command: it notes when
// the job began.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void die(const char* what) {
  perror(what);
  exit(1);
}

static void send_all(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = write(to, bytes, size);
    if (sent < 0) die("write");
    bytes += sent;
    size -= (size_t)sent;
  }
}

// All of a file, up to what there is room for; how much that was.
static size_t receive_all(int from, char* bytes, size_t room) {
  size_t size = 0;
  for (ssize_t got; (got = read(from, bytes + size, room - size)) > 0;) size += (size_t)got;
  return size;
}

// Behind the lines that begin with '#': sbatch reads its options up to the first other one.
static size_t first_command(const char* script) {
  const char* at = script;
  while (*at == '#') at = strchrnul(at, '\n') + 1;
  return (size_t)(at - script);
}

int main(int argc, char** argv) {
  (void)argc;
  const long long begun = now();
  const char* called = argv[0];
  char path[4096];
  snprintf(path, sizeof path, "%s.first", called);
  static char first[4096];
  const int opened = open(path, O_RDONLY | O_CLOEXEC);
  if (opened < 0) die(path);
  const size_t first_size = receive_all(opened, first, sizeof first);
  static char script[1 << 20];
  const size_t size = receive_all(0, script, sizeof script - 1);
  int pipes[2];
  if (pipe(pipes) != 0) die("pipe");
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    dup2(pipes[0], 0);
    close(pipes[0]);
    close(pipes[1]);
    argv[0] = "sbatch";
    execv("/usr/bin/sbatch", argv);
    die("/usr/bin/sbatch");
  }
  close(pipes[0]);
  const size_t head = first_command(script);
  send_all(pipes[1], script, head);
  send_all(pipes[1], first, first_size);
  send_all(pipes[1], script + head, size - head);
  close(pipes[1]);
  int status = 0;
  waitpid(child, &status, 0);
  const long long done = now();

  snprintf(path, sizeof path, "%s.stamps", called);
  FILE* stamps = fopen(path, "a");
  if (stamps == NULL) die(path);
  fprintf(stamps, "%lld %lld\n", begun, done);
  fclose(stamps);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
