/* A client of a session, written as a script, and what the session made of it, as text.
 *
 * A script is a list of steps, parted by "; ":
 *
 *   H ID FLAGS name=value …   HEADERS; GET, HEAD and POST stand for the pseudo-fields of such a
 *                             request for https://a/; %XX is an octet
 *   C ID FLAGS name=value …   CONTINUATION
 *   D ID FLAGS text           DATA
 *   F TYPE FLAGS ID hex       any frame; FLAGS is a number in hex
 *   S name=value …            SETTINGS, by number
 *   W ID increment            WINDOW_UPDATE
 *   R ID code                 RST_STREAM
 *   X hex                     bytes
 *   * N step                  the step N times; of H, with the next numbers
 *   answer ID STATUS text     our side: a whole answer ("-": head alone)
 *   begin ID STATUS           a head; more ID text, end ID text: pieces of its body
 *   interim ID STATUS
 *   trailers ID name=value    end with trailers
 *   took ID n                 bytes of the body were passed on
 *   release ID                the exchange is over
 *   refuse ID                 it is not begun
 *   own ID                    no server answers it
 *   at MS                     the time, from 0
 *   drain, stop, ping, pack   pack: write what is due; done anyway behind the script
 *
 * FLAGS: S END_STREAM, H END_HEADERS, P PADDED, R PRIORITY, "-" none; what P and R add comes as
 * "pad=N", "on=ID".
 *
 * The transcript has a line for each event and each frame out, but for those of the handshake. */

#ifndef SLUICE_TESTS_HTTP2_PEER_H
#define SLUICE_TESTS_HTTP2_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http2/session.h"

enum {
    PEER_STREAMS_MAX = 256,
    PEER_FIELDS_MAX = 24,
    PEER_HEAD_BYTES_MAX = 4096,
};

/* Of the session; windows of 65535 and 100 streams unless a test sets them. */
extern struct http2_config peer_config;

/* The transcript of @script. It was run three times: the bytes of a step at once, one by one, and
 * with small batches; the transcripts are the same (the third one's frames may be cut otherwise).
 * Lives until the next call. */
const char *peer_run(const char *script);

/* As peer_run(), without the preface and SETTINGS of a client before the script. */
const char *peer_run_bare(const char *script);

/* The session of the last run: its abuse of this kind, and whether it is over. */
uint64_t peer_abuse(enum http2_abuse kind);
bool peer_is_over(void);
size_t peer_memory(void);

#endif /* SLUICE_TESTS_HTTP2_PEER_H */
