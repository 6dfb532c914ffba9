/* The encoder of header blocks (RFC 7541) of one direction of a connection.
 *
 * A field line goes into the dynamic table when it is sent for the second time within a while, so
 * that lines whose values change with each message neither fill the table nor cost a search. Lines
 * that carry secrets never go into it. Strings are not Huffman-coded: the lines that come again are
 * a byte each, and the others are short. Names are written in lower case. */

#ifndef SLUICE_HTTP2_HPACK_ENCODER_H
#define SLUICE_HTTP2_HPACK_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    HPACK_TABLE_BYTES = 4096, /* the most that is used of what the peer grants */
    HPACK_ENTRIES_MAX = 64,
    HPACK_SLOTS = 128,
    HPACK_SEEN = 64,
    HPACK_LINE_BYTES = 16,         /* of a line, beside its name and value, at most */
    HPACK_BLOCK_BYTES = 2 * 6,     /* of a block, beside its lines, at most */
    HPACK_INDEXED_BYTES_MAX = 256, /* longer lines are not indexed */
};

struct hpack_entry;

struct hpack_encoder {
    bool has_table;
    uint32_t capacity; /* of the table, as RFC 7541 section 4.1 counts */
    uint32_t least;    /* since the last block */
    uint32_t size;
    bool is_resized;     /* the next block begins with the new capacity */
    uint32_t n_inserted; /* of all time: the number of the next entry */
    uint32_t n;          /* entries in the table */
    struct hpack_entry *entries[HPACK_ENTRIES_MAX]; /* a ring, by number */
    uint32_t slots[HPACK_SLOTS];                    /* the number behind an entry with the hash */
    uint32_t seen[HPACK_SEEN];                      /* hashes of lines that were sent */
};

/* Without @has_table each line stands for itself in every block. */
void hpack_encoder_init(struct hpack_encoder *encoder, bool has_table);
void hpack_encoder_free(struct hpack_encoder *encoder);

/* The peer grants a table of @bytes. */
void hpack_encoder_resize(struct hpack_encoder *encoder, uint32_t bytes);

/* Begin a block, and add a line. @at has room for HPACK_BLOCK_BYTES, and for name, value and
 * HPACK_LINE_BYTES. They return what is behind the bytes written. */
char *hpack_encode_begin(struct hpack_encoder *encoder, char *at);
char *hpack_encode_line(struct hpack_encoder *encoder, char *at, struct span name,
                        struct span value);

/* Bytes of memory beside the encoder itself. */
size_t hpack_encoder_memory(const struct hpack_encoder *encoder);

#endif /* SLUICE_HTTP2_HPACK_ENCODER_H */
