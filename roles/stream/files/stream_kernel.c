/* Memory bandwidth by the four STREAM kernels (McCalpin's definition of what is counted and how it is checked).
 *
 *   stream_kernel ARRAY_ELEMENTS REPEATS
 *
 * Arrays are double precision, aligned, and first touched by the thread that uses them. With -DSTREAMING_STORES the
 * results are written past the caches (AVX-512 or AVX): otherwise every written line is read first, which the count
 * of bytes does not show (copy and scale then move 3/2, add and triad 4/3 of what is counted).
 *
 * Prints one JSON object: bytes counted and seconds of every repeat for each kernel, the CPU of each thread, and the
 * largest relative error of the arrays against the values that the repeats must leave.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef STREAMING_STORES
#include <immintrin.h>
#endif

#define ALIGNMENT 64
#define KERNELS 4
#define SCALAR 0.42 /* small enough that the values stay finite over many repeats */

#if defined(STREAMING_STORES) && defined(__AVX512F__)
#define WIDTH 8
#define STORES "streaming-avx512"
#elif defined(STREAMING_STORES) && defined(__AVX__)
#define WIDTH 4
#define STORES "streaming-avx"
#else
#define WIDTH 1
#define STORES "regular"
#endif

#if WIDTH == 8
typedef __m512d vector;
#define LOAD(p) _mm512_load_pd(p)
#define STORE(p, v) _mm512_stream_pd((p), (v))
#define SET(x) _mm512_set1_pd(x)
#define ADD(x, y) _mm512_add_pd((x), (y))
#define MUL(x, y) _mm512_mul_pd((x), (y))
#elif WIDTH == 4
typedef __m256d vector;
#define LOAD(p) _mm256_load_pd(p)
#define STORE(p, v) _mm256_stream_pd((p), (v))
#define SET(x) _mm256_set1_pd(x)
#define ADD(x, y) _mm256_add_pd((x), (y))
#define MUL(x, y) _mm256_mul_pd((x), (y))
#else
typedef double vector;
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET(x) (x)
#define ADD(x, y) ((x) + (y))
#define MUL(x, y) ((x) * (y))
#endif

static const char *const names[KERNELS] = {"copy", "scale", "add", "triad"};
static const int arrays_counted[KERNELS] = {2, 2, 3, 3};

static long number(const char *text, const char *what, long least) {
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < least) {
        fprintf(stderr, "stream_kernel: %s %s is not a whole number of at least %ld\n", what, text, least);
        exit(2);
    }
    return value;
}

static double *array(size_t elements) {
    double *memory = aligned_alloc(ALIGNMENT, elements * sizeof(double));
    if (!memory) {
        fprintf(stderr, "stream_kernel: no memory for an array of %zu bytes\n", elements * sizeof(double));
        exit(3);
    }
    return memory;
}

static double worst(const double *values, long elements, double expected) {
    double error = 0.0;
#pragma omp parallel for reduction(max : error)
    for (long i = 0; i < elements; i++) {
        double here = fabs((values[i] - expected) / expected);
        if (!(here <= error)) error = isnan(here) ? INFINITY : here;
    }
    return error;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: stream_kernel ARRAY_ELEMENTS REPEATS\n");
        return 2;
    }
    /* whole cache lines, so that the vector loops need no remainder */
    long elements = number(argv[1], "ARRAY_ELEMENTS", 1024) / 8 * 8;
    int repeats = (int)number(argv[2], "REPEATS", 1);
    double *a = array((size_t)elements), *b = array((size_t)elements), *c = array((size_t)elements);
    double *seconds = calloc((size_t)repeats * KERNELS, sizeof(double));
    int threads = omp_get_max_threads();
    int *cpus = calloc((size_t)threads, sizeof(int));
    if (!seconds || !cpus) return 3;

#pragma omp parallel
    cpus[omp_get_thread_num()] = sched_getcpu();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < elements; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }

    double ea = 1.0, eb = 2.0, ec = 0.5;
    const vector scalar = SET(SCALAR);
    for (int repeat = 0; repeat < repeats; repeat++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            double begin = omp_get_wtime();
            switch (kernel) {
            case 0:
#pragma omp parallel for schedule(static)
                for (long i = 0; i < elements; i += WIDTH) STORE(&c[i], LOAD(&a[i]));
                break;
            case 1:
#pragma omp parallel for schedule(static)
                for (long i = 0; i < elements; i += WIDTH) STORE(&b[i], MUL(scalar, LOAD(&c[i])));
                break;
            case 2:
#pragma omp parallel for schedule(static)
                for (long i = 0; i < elements; i += WIDTH) STORE(&c[i], ADD(LOAD(&a[i]), LOAD(&b[i])));
                break;
            default:
#pragma omp parallel for schedule(static)
                for (long i = 0; i < elements; i += WIDTH)
                    STORE(&a[i], ADD(LOAD(&b[i]), MUL(scalar, LOAD(&c[i]))));
            }
            seconds[repeat * KERNELS + kernel] = omp_get_wtime() - begin;
        }
        ec = ea;
        eb = SCALAR * ec;
        ec = ea + eb;
        ea = eb + SCALAR * ec;
    }

    double error = fmax(worst(a, elements, ea), fmax(worst(b, elements, eb), worst(c, elements, ec)));
    printf("{\"tool\": \"trueup-stream\", \"format\": 1, \"stores\": \"%s\", \"threads\": %d, ", STORES, threads);
    printf("\"array_elements\": %ld, \"array_bytes\": %zu, ", elements, (size_t)elements * sizeof(double));
    printf("\"compiler\": \"%s\", \"cpus\": [", __VERSION__);
    for (int t = 0; t < threads; t++) printf("%s%d", t ? ", " : "", cpus[t]);
    printf("], \"error\": %.3e, ", isinf(error) ? 1e300 : error); /* JSON has no infinity */
    printf("\"kernels\": {");
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        printf("%s\"%s\": {\"bytes\": %zu, \"seconds\": [", kernel ? ", " : "", names[kernel],
               (size_t)arrays_counted[kernel] * (size_t)elements * sizeof(double));
        for (int repeat = 0; repeat < repeats; repeat++)
            printf("%s%.9f", repeat ? ", " : "", seconds[repeat * KERNELS + kernel]);
        printf("]}");
    }
    printf("}}\n");
    free(a);
    free(b);
    free(c);
    free(seconds);
    free(cpus);
    return 0;
}
