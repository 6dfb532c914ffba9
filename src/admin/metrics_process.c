/* The process itself, under the names that Prometheus' own clients use. What the system does
 * not tell has no sample. */

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/metrics.h"
#include "base/clock.h"
#include "base/log_output.h"
#include "base/text.h"

static void add_us(struct metrics *metrics, uint64_t us)
{
    metrics_page_add_us(&metrics->page, metrics->metric->name, SPAN(""), NULL, 0, us);
}

/* --- the logs --- */

void metrics_write_log_lines_lost(struct metrics *metrics)
{
    struct page_label label = {SPAN("log"), SPAN("access")};
    metrics_add(metrics, &label, 1, log_output_lost(LOG_KIND_ACCESS));
    label.value = SPAN("program");
    metrics_add(metrics, &label, 1, log_output_lost(LOG_KIND_PROGRAM));
}

/* --- the policy --- */

void metrics_write_reloads(struct metrics *metrics)
{
    const struct reload_meters *reload = &metrics->meters->reload;
    struct page_label label = {SPAN("result"), SPAN("done")};
    metrics_add(metrics, &label, 1, counter_read(&reload->done));
    label.value = SPAN("failed");
    metrics_add(metrics, &label, 1, counter_read(&reload->failed));
}

void metrics_write_last_reload(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, 1 - counter_read(&metrics->meters->reload.last_failed));
}

void metrics_write_loaded(struct metrics *metrics)
{
    add_us(metrics, counter_read(&metrics->meters->reload.loaded_us));
}

/* --- the program --- */

void metrics_write_build(struct metrics *metrics)
{
    const struct page_label label = {SPAN("version"),
                                     span_of_text(metrics->admin->options.version)};
    metrics_add(metrics, &label, 1, 1);
}

void metrics_write_workers(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, metrics->n_workers);
}

static uint64_t us_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

void metrics_write_cpu(struct metrics *metrics)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        add_us(metrics, us_of(&usage.ru_utime) + us_of(&usage.ru_stime));
    }
}

/* In ticks since the system's start; false: not told. */
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

void metrics_write_start_time(struct metrics *metrics)
{
    unsigned long long ticks;
    const uint64_t start_s = system_start_s();
    const long ticks_per_s = sysconf(_SC_CLK_TCK);
    if (start_s > 0 && ticks_per_s > 0 && read_start(&ticks)) {
        add_us(metrics, start_s * 1000000 + ticks * 1000000 / (unsigned long long)ticks_per_s);
    }
}

/* --- memory --- */

/* In pages; false: not told. */
static bool read_pages(unsigned long long *size, unsigned long long *resident)
{
    FILE *file = fopen("/proc/self/statm", "re");
    const int n = file == NULL ? 0 : fscanf(file, "%llu %llu", size, resident);
    if (file != NULL) {
        fclose(file);
    }
    return n == 2;
}

static void add_pages(struct metrics *metrics, unsigned long long pages)
{
    metrics_add(metrics, NULL, 0, pages * (unsigned long long)sysconf(_SC_PAGESIZE));
}

void metrics_write_memory_of_process(struct metrics *metrics)
{
    unsigned long long size;
    unsigned long long resident;
    if (read_pages(&size, &resident)) {
        add_pages(metrics, resident);
    }
}

void metrics_write_virtual_memory(struct metrics *metrics)
{
    unsigned long long size;
    unsigned long long resident;
    if (read_pages(&size, &resident)) {
        add_pages(metrics, size);
    }
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

void metrics_write_open_fds(struct metrics *metrics)
{
    uint64_t n;
    if (read_open_fds(&n) || count_open_fds(&n)) {
        metrics_add(metrics, NULL, 0, n);
    }
}

void metrics_write_max_fds(struct metrics *metrics)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        metrics_add(metrics, NULL, 0, limit.rlim_cur);
    }
}
