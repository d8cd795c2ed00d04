// Prints the steady clock, in nanoseconds, as its first act: where a run's command began.
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

int main(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
  return 0;
}
