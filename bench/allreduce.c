// What data-parallel training does between its steps: sums of a megabyte over all ranks (MPI).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kValues = 1 << 18 };

int main(int argc, char** argv) {
  static float values[kValues];
  static float sums[kValues];
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < kValues; ++i) values[i] = 1;
  const int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
  for (int round = 0; round < rounds; ++round) {
    MPI_Allreduce(values, sums, kValues, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kValues; ++i) values[i] = sums[i] / (float)ranks;
  }
  int total = 0;
  MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ranks %d sum %d mean %.1f\n", ranks, total, (double)values[0]);
  MPI_Finalize();
  return 0;
}
