#include "geo/database.h"

#include <errno.h>
#include <fcntl.h>
#include <maxminddb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

enum {
    COPY_BYTES = 1 << 16,
    PROBED_NODES_MAX = 1 << 16, /* at most so many are visited to see which facts there are */
    PROBED_RECORDS_MAX = 1000,
    TREE_DEPTH_MAX = 128,
};

struct geo_database {
    atomic_uint n_references;
    unsigned facts;
    MMDB_s file;
};

/* --- facts as text --- */

bool geo_country_parse(struct span text, char country[GEO_COUNTRY_BYTES])
{
    if (text.len != GEO_COUNTRY_BYTES) {
        return false;
    }
    for (size_t i = 0; i < GEO_COUNTRY_BYTES; i++) {
        const char lower = ascii_lower(text.data[i]);
        if (lower < 'a' || lower > 'z') {
            return false;
        }
        country[i] = (char)(lower - 'a' + 'A');
    }
    return true;
}

bool geo_asn_parse(struct span text, uint32_t *asn)
{
    uint64_t number;
    if (text.len > 2 && span_equals_ignore_case(span_of(text.data, 2), SPAN("AS"))) {
        text = span_of(text.data + 2, text.len - 2);
    }
    if (!span_to_u64(text, UINT32_MAX, &number) || number == 0) {
        return false;
    }
    *asn = (uint32_t)number;
    return true;
}

/* --- records --- */

/* The value at @path of a record. False: it has none, or is malformed. */
static bool get(const MMDB_entry_s *entry, const char *const *path, MMDB_entry_data_s *value)
{
    MMDB_entry_s start = *entry;
    return MMDB_aget_value(&start, value, path) == MMDB_SUCCESS && value->has_data;
}

static struct span text_at(const MMDB_entry_s *entry, const char *const *path)
{
    MMDB_entry_data_s value;
    return get(entry, path, &value) && value.type == MMDB_DATA_TYPE_UTF8_STRING
               ? span_of(value.utf8_string, value.data_size)
               : SPAN("");
}

static bool read_country(const MMDB_entry_s *entry, struct geo_facts *facts)
{
    static const char *const NESTED[] = {"country", "iso_code", NULL};
    static const char *const FLAT[] = {"country_code", NULL};
    return geo_country_parse(text_at(entry, NESTED), facts->country) ||
           geo_country_parse(text_at(entry, FLAT), facts->country);
}

static uint32_t read_asn(const MMDB_entry_s *entry)
{
    static const char *const NUMBER[] = {"autonomous_system_number", NULL};
    static const char *const TEXT[] = {"asn", NULL};
    MMDB_entry_data_s value;
    uint32_t asn = 0;
    if (get(entry, NUMBER, &value)) {
        return value.type == MMDB_DATA_TYPE_UINT32   ? value.uint32
               : value.type == MMDB_DATA_TYPE_UINT16 ? value.uint16
                                                     : 0;
    }
    return geo_asn_parse(text_at(entry, TEXT), &asn) ? asn : 0;
}

/* Add those of the @wanted facts that @facts lacks. */
static void read_record(const MMDB_entry_s *entry, unsigned wanted, struct geo_facts *facts)
{
    if ((wanted & GEO_COUNTRY) != 0 && !facts->has_country) {
        facts->has_country = read_country(entry, facts);
    }
    if ((wanted & GEO_ASN) != 0 && facts->asn == 0) {
        facts->asn = read_asn(entry);
    }
}

/* --- which facts there are --- */

struct probe {
    const MMDB_s *file;
    uint32_t nodes[TREE_DEPTH_MAX]; /* that are yet to be visited */
    size_t n_nodes;
    size_t n_records;
    struct geo_facts facts;
};

static void probe_side(struct probe *probe, uint8_t type, uint64_t number,
                       const MMDB_entry_s *entry)
{
    if (type == MMDB_RECORD_TYPE_SEARCH_NODE && probe->n_nodes < TREE_DEPTH_MAX) {
        probe->nodes[probe->n_nodes++] = (uint32_t)number;
    } else if (type == MMDB_RECORD_TYPE_DATA) {
        read_record(entry, GEO_COUNTRY | GEO_ASN, &probe->facts);
        probe->n_records++;
    }
}

static unsigned probe_facts(const MMDB_s *file)
{
    struct probe probe = {.file = file, .n_nodes = 1};
    for (size_t i = 0;
         i < PROBED_NODES_MAX && probe.n_nodes > 0 && probe.n_records < PROBED_RECORDS_MAX; i++) {
        MMDB_search_node_s node;
        if (MMDB_read_node(file, probe.nodes[--probe.n_nodes], &node) != MMDB_SUCCESS) {
            break;
        }
        probe_side(&probe, node.right_record_type, node.right_record, &node.right_record_entry);
        probe_side(&probe, node.left_record_type, node.left_record, &node.left_record_entry);
    }
    return (probe.facts.has_country ? GEO_COUNTRY : 0U) | (probe.facts.asn != 0 ? GEO_ASN : 0U);
}

/* --- files --- */

static enum status fail(struct text *problem, const char *what, enum status status)
{
    text_add_format(problem, "%s: %s", what, strerror(errno));
    return errno == ENOMEM ? STATUS_NO_MEMORY : status;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Copy the file @from to @to. */
static enum status copy(int from, int to, struct text *problem)
{
    static const char CANNOT_READ[] = "cannot be read";
    char buffer[COPY_BYTES];
    size_t total = 0;
    ssize_t n = 1;
    while (n != 0) {
        n = read(from, buffer, sizeof(buffer));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail(problem, CANNOT_READ, STATUS_IO);
        }
        total += (size_t)n;
        if (total > GEO_FILE_BYTES_MAX) {
            text_add_format(problem, "is larger than %u MiB", GEO_FILE_BYTES_MAX >> 20);
            return STATUS_TOO_LARGE;
        }
        if (!write_all(to, buffer, (size_t)n)) {
            return fail(problem, "there is no room for it in memory", STATUS_NO_MEMORY);
        }
    }
    return STATUS_OK;
}

/* A descriptor of a copy of the file at @path, in memory that only this process has. */
static enum status copy_file(const char *path, int *fd, struct text *problem)
{
    struct stat file;
    enum status status;
    const int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (from < 0) {
        return fail(problem, "cannot be opened", STATUS_IO);
    }
    if (fstat(from, &file) != 0 || !S_ISREG(file.st_mode)) {
        close(from);
        text_add_literal(problem, "is no regular file");
        return STATUS_INVALID;
    }
    *fd = memfd_create("geo", MFD_CLOEXEC);
    if (*fd < 0) {
        status = fail(problem, "there is no memory for it", STATUS_IO);
    } else {
        status = copy(from, *fd, problem);
        if (status != STATUS_OK) {
            close(*fd);
        }
    }
    close(from);
    return status;
}

/* libmaxminddb maps a file by its path alone: the descriptor's. */
static enum status map(int fd, MMDB_s *file, struct text *problem)
{
    char path[sizeof("/proc/self/fd/") + 16];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int error = MMDB_open(path, MMDB_MODE_MMAP, file);
    if (error == MMDB_SUCCESS) {
        return STATUS_OK;
    }
    if (error == MMDB_FILE_OPEN_ERROR) {
        return fail(problem, "cannot be mapped by /proc/self/fd", STATUS_IO);
    }
    if (error == MMDB_OUT_OF_MEMORY_ERROR) {
        return STATUS_NO_MEMORY;
    }
    text_add_format(problem, "is no MaxMind DB: %s", MMDB_strerror(error));
    return STATUS_INVALID;
}

enum status geo_database_open(const char *path, struct geo_database **database,
                              struct text *problem)
{
    int fd;
    enum status status = copy_file(path, &fd, problem);
    if (status != STATUS_OK) {
        return status;
    }
    struct geo_database *opened = calloc(1, sizeof(*opened));
    status = opened == NULL ? STATUS_NO_MEMORY : map(fd, &opened->file, problem);
    close(fd);
    if (status != STATUS_OK) {
        free(opened);
        return status;
    }
    atomic_init(&opened->n_references, 1);
    opened->facts = probe_facts(&opened->file);
    *database = opened;
    return STATUS_OK;
}

struct geo_database *geo_database_acquire(struct geo_database *database)
{
    atomic_fetch_add_explicit(&database->n_references, 1, memory_order_relaxed);
    return database;
}

void geo_database_release(struct geo_database *database)
{
    if (database != NULL &&
        atomic_fetch_sub_explicit(&database->n_references, 1, memory_order_acq_rel) == 1) {
        MMDB_close(&database->file);
        free(database);
    }
}

unsigned geo_database_facts(const struct geo_database *database)
{
    return database->facts;
}

/* --- lookups --- */

void geo_database_find(const struct geo_database *database, const struct address *address,
                       unsigned wanted, struct geo_facts *facts)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    int error = MMDB_SUCCESS;
    MMDB_lookup_result_s found;
    if (address->family == ADDRESS_IPV4) {
        memcpy(&ipv4.sin_addr, address->bytes, sizeof(ipv4.sin_addr));
        found = MMDB_lookup_sockaddr(&database->file, (const struct sockaddr *)&ipv4, &error);
    } else if (address->family == ADDRESS_IPV6) {
        memcpy(&ipv6.sin6_addr, address->bytes, sizeof(ipv6.sin6_addr));
        found = MMDB_lookup_sockaddr(&database->file, (const struct sockaddr *)&ipv6, &error);
    } else {
        return;
    }
    if (error == MMDB_SUCCESS && found.found_entry) {
        read_record(&found.entry, wanted, facts);
    }
}
