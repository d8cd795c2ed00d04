// Prints the steady clock, in nanoseconds, as its first act: where a run's command began. With an
// argument the wall clock, and after it the value of the variable it names.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  struct timespec now;
  clock_gettime(argc > 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
  printf("%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
  if (argc > 1) {
    const char* value = getenv(argv[1]);
    printf(" %s", value != NULL ? value : "-");
  }
  printf("\n");
  return 0;
}
