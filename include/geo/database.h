/* Databases of addresses in the MaxMind DB format: of which country an address is, and of which
 * autonomous system (AS). They are read with libmaxminddb.
 *
 * A database is immutable and shared by all threads. Its file is copied into memory of its own when
 * it is opened: libmaxminddb maps files, and a mapped file that is truncated in place ends the
 * process at the next lookup (SIGBUS). So what happens to the file later changes nothing, and no
 * lookup waits for a disk. */

#ifndef SLUICE_GEO_DATABASE_H
#define SLUICE_GEO_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"

/* What a database may know of an address: a bit set of these. */
enum {
    GEO_COUNTRY = 1,
    GEO_ASN = 2,
};

enum { GEO_COUNTRY_BYTES = 2 };

/* What is known of an address. */
struct geo_facts {
    uint32_t asn;                    /* 0: unknown */
    bool has_country;                /* else the country is unknown */
    char country[GEO_COUNTRY_BYTES]; /* ISO 3166-1 alpha-2, two letters A-Z */
};

static inline struct span geo_country(const struct geo_facts *facts)
{
    return span_of(facts->country, facts->has_country ? GEO_COUNTRY_BYTES : 0);
}

struct geo_database;

/* Read the file at @path, at most GEO_FILE_BYTES_MAX. The caller owns one reference to *database.
 * STATUS_INVALID, STATUS_IO or STATUS_TOO_LARGE: @problem says what is wrong, without the path.
 * STATUS_NO_MEMORY. */
MUST_USE enum status geo_database_open(const char *path, struct geo_database **database,
                                       struct text *problem);

struct geo_database *geo_database_acquire(struct geo_database *database);

/* NULL is a no-op. */
void geo_database_release(struct geo_database *database);

/* The bits GEO_… of the facts that the first records of @database have. */
unsigned geo_database_facts(const struct geo_database *database);

/* Add to @facts what @database knows of @address and they lack. @wanted: bits GEO_…, of what is
 * looked for. A record that is malformed adds nothing. Country: `country.iso_code`, or
 * `country_code`. AS: `autonomous_system_number`, or `asn` as "AS64496". */
void geo_database_find(const struct geo_database *database, const struct address *address,
                       unsigned wanted, struct geo_facts *facts);

/* --- facts as text --- */

/* Parse two letters, in any case. */
MUST_USE bool geo_country_parse(struct span text, char country[GEO_COUNTRY_BYTES]);

/* Parse the number of an AS, 1 to 2^32-1, with or without `AS` before it. */
MUST_USE bool geo_asn_parse(struct span text, uint32_t *asn);

#endif /* SLUICE_GEO_DATABASE_H */
