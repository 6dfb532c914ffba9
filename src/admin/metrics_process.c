/* The process itself, under the names that Prometheus' own clients use. What the system does
 * not tell has no sample. */

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/metrics.h"
#include "base/clock.h"

static uint64_t us_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

bool metrics_read_cpu(const struct metrics *metrics, uint64_t *us)
{
    struct rusage usage;
    (void)metrics;
    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return false;
    }
    *us = us_of(&usage.ru_utime) + us_of(&usage.ru_stime);
    return true;
}

/* In ticks since the system's start; false: unknown. */
static bool read_start(unsigned long long *ticks)
{
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL) {
        return false;
    }
    /* Field 22; the second, in parentheses, is our name: it has no space. */
    const int n = fscanf(file,
                         "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                         "%*d %*d %*d %llu",
                         ticks);
    fclose(file);
    return n == 1;
}

static pthread_once_t boot_once = PTHREAD_ONCE_INIT;
static uint64_t boot_s;

/* Taken from the clocks: /proc/stat is hidden where a service sees processes alone. */
static void read_boot(void)
{
    struct clock_reading reading;
    clock_read(&reading);
    boot_s = reading.wall_us > reading.boot_us ? (reading.wall_us - reading.boot_us) / 1000000 : 0;
}

/* The system's start, in seconds since the epoch; 0: not known. The same for the life of the
 * process, so that the metric does not move with the clock. */
static uint64_t system_start_s(void)
{
    (void)pthread_once(&boot_once, read_boot);
    return boot_s;
}

bool metrics_read_start_time(const struct metrics *metrics, uint64_t *us)
{
    unsigned long long ticks;
    const uint64_t start_s = system_start_s();
    const long ticks_per_s = sysconf(_SC_CLK_TCK);
    (void)metrics;
    if (start_s == 0 || ticks_per_s <= 0 || !read_start(&ticks)) {
        return false;
    }
    *us = start_s * 1000000 + ticks * 1000000 / (unsigned long long)ticks_per_s;
    return true;
}

/* --- memory --- */

/* Set *size and *resident, in bytes; false: unknown. */
static bool read_sizes(uint64_t *size, uint64_t *resident)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    *size = 0;
    *resident = 0;
    const int n = file == NULL ? 0 : fscanf(file, "%" SCNu64 " %" SCNu64, size, resident);
    if (file != NULL) {
        fclose(file);
    }
    *size *= page;
    *resident *= page;
    return n == 2;
}

bool metrics_read_resident(const struct metrics *metrics, uint64_t *bytes)
{
    uint64_t size;
    (void)metrics;
    return read_sizes(&size, bytes);
}

bool metrics_read_virtual(const struct metrics *metrics, uint64_t *bytes)
{
    uint64_t resident;
    (void)metrics;
    return read_sizes(bytes, &resident);
}

/* --- file descriptors --- */

/* The size of the folder is their number since Linux 6.2, and was 0 before. */
static bool read_open_fds(uint64_t *n)
{
    struct stat folder;
    *n = stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0 ? (uint64_t)folder.st_size : 0;
    return *n > 0;
}

/* One by one: as many steps as there are. */
static bool count_open_fds(uint64_t *n)
{
    DIR *folder = opendir("/proc/self/fd");
    *n = 0;
    if (folder == NULL) {
        return false;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        *n += entry->d_name[0] != '.';
    }
    closedir(folder);
    *n -= *n > 0; /* the folder's own */
    return true;
}

bool metrics_read_open_fds(const struct metrics *metrics, uint64_t *n)
{
    (void)metrics;
    return read_open_fds(n) || count_open_fds(n);
}

bool metrics_read_max_fds(const struct metrics *metrics, uint64_t *n)
{
    struct rlimit limit;
    (void)metrics;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    *n = limit.rlim_cur;
    return true;
}
