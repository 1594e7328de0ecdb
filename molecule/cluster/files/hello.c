/* Each rank says who and where it is, and which CPUs it may use; rank 0 that it has heard of all others. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words)
{
    int rank, size, sum;
    char host[256];
    cpu_set_t mine;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    sched_getaffinity(0, sizeof mine, &mine);
    printf("rank %d of %d on %s with %d CPU(s)\n", rank, size, host, CPU_COUNT(&mine));
    if (rank == 0)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
