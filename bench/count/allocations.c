/* Preloaded into a program, counts its calls of malloc and the like, by who called, in the file
 * that COUNT_ALLOCATIONS names: an array of COUNTERS 64-bit numbers in shared memory, so that
 * whoever reads it needs nothing of the program. Without that variable it counts nothing. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the order of the file; bench/calls knows it. */
enum counter { PROGRAM, HIREDIS, LIBEVENT, OTHERS, COUNTERS };

/* glibc's own names: no lookup is needed, which would allocate itself. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

struct range {
    uintptr_t begin;
    uintptr_t end;
    enum counter counter;
};

enum { MAX_RANGES = 8 };

static struct range ranges[MAX_RANGES];
static size_t n_ranges;
static _Atomic(uint64_t) *counters; /* NULL: nothing is counted */

static enum counter counter_of_object(const char *name)
{
    if (*name == '\0') {
        return PROGRAM;
    }
    if (strstr(name, "libhiredis") != NULL) {
        return HIREDIS;
    }
    return strstr(name, "libevent") != NULL ? LIBEVENT : OTHERS;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    enum counter counter = counter_of_object(info->dlpi_name);
    for (size_t i = 0; i < info->dlpi_phnum && counter != OTHERS; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0 && n_ranges < MAX_RANGES) {
            uintptr_t begin = info->dlpi_addr + header->p_vaddr;
            ranges[n_ranges++] = (struct range){begin, begin + header->p_memsz, counter};
        }
    }
    return 0;
}

__attribute__((constructor)) static void start_counting(void)
{
    const char *path = getenv("COUNT_ALLOCATIONS");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd == -1) {
        return;
    }
    dl_iterate_phdr(note_object, NULL);
    void *shared =
        mmap(NULL, COUNTERS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) {
        counters = shared;
    }
}

static void count(void *caller)
{
    if (counters == NULL) {
        return;
    }
    uintptr_t address = (uintptr_t)caller;
    enum counter counter = OTHERS;
    for (size_t i = 0; i < n_ranges; i++) {
        if (address >= ranges[i].begin && address < ranges[i].end) {
            counter = ranges[i].counter;
        }
    }
    atomic_fetch_add_explicit(&counters[counter], 1, memory_order_relaxed);
}

#define COUNT() count(__builtin_return_address(0))

void *malloc(size_t size)
{
    COUNT();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    COUNT();
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    COUNT();
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    COUNT();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    COUNT();
    void *got = __libc_memalign(alignment, size);
    if (got == NULL) {
        return ENOMEM;
    }
    *out = got;
    return 0;
}
