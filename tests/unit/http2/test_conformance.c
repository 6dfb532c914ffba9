/* What RFC 9113 and RFC 7541 ask of a server, section by section, as far as a client can try it: a
 * script, and the events and frames that follow (peer.h). The cases of the public conformance suite
 * (generic, http2, hpack) are among them. Where the RFC asks for a stream error, a connection error
 * may stand in its place (section 5.4). */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/peer.h"

struct row {
    const char *section; /* and what is tried */
    const char *script;
    const char *transcript;
};

#define GET_1 "head 1 GET / host=a"
#define OK_1 "HEADERS 1 :status=200 server=s end\n"
#define ANSWERED_1 GET_1 " last\n" OK_1

static const struct row ROWS[] = {
    /* --- RFC 9113 section 4: frames --- */
    {"4.1 a frame of an unknown type is passed over",
     "F 22 0 0 0000000000000000; F 22 0 5 00; H 1 SH GET; answer 1 200 -", ANSWERED_1},
    {"4.1 undefined flags are passed over", "F 6 16 0 6869746869746869", "PING ack hithithi\n"},
    {"4.1 the reserved bit is passed over", "X 000008060080000000; X 6869746869746869",
     "PING ack hithithi\n"},
    {"4.2 DATA of 2^14 bytes is taken", "H 1 H POST; D 1 S *16384; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 16384 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"4.2 DATA of more is refused", "H 1 H POST; D 1 S *16385",
     "head 1 POST / host=a\n"
     "GOAWAY 1 FRAME_SIZE_ERROR\n"},
    {"4.2 HEADERS of more is refused", "H 1 SH GET x=*16385", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"4.2 SETTINGS of more is refused", "X 00400104000000000000", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"4.3 a block that cannot be read", "F 1 5 1 40", "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"4.3 PRIORITY within a block", "H 1 S GET; F 2 0 1 0000000010; C 1 H x=y",
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"4.3 HEADERS of another stream within a block", "H 1 S GET; H 3 SH GET; C 1 H x=y",
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"4.3 CONTINUATION of another stream", "H 1 S GET; C 3 H x=y", "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"4.3 compression goes on behind a head that is refused",
     "F 1 5 1 40 0141 0162 82; H 3 SH GET hex=be",
     "malformed: the name of a field is not a token in lower case\n"
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"
     "RST_STREAM 3 PROTOCOL_ERROR\n"},

    /* --- section 5.1: states --- */
    {"5.1 idle: DATA", "D 1 S test", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.1 idle: RST_STREAM", "R 1 8", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.1 idle: WINDOW_UPDATE", "W 1 100", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.1 idle: CONTINUATION", "C 1 H GET", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.1 idle: PRIORITY is taken", "F 2 0 1 0000000010; H 1 SH GET; answer 1 200 -", ANSWERED_1},
    {"5.1 idle: HEADERS below an idle PRIORITY", "F 2 0 7 0000000010; H 1 SH GET; answer 1 200 -",
     ANSWERED_1},
    {"5.1 half-closed (remote): DATA", "H 1 SH GET; D 1 S test",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 half-closed (remote): HEADERS", "H 1 SH GET; H 1 SH GET",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 half-closed (remote): CONTINUATION", "H 1 SH GET; C 1 H x=y",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"5.1 half-closed (remote): WINDOW_UPDATE, PRIORITY and RST_STREAM are taken",
     "H 1 SH GET; W 1 1; F 2 0 1 0000000010; R 1 8",
     "head 1 GET / host=a last\n"
     "reset 1 by peer\n"},
    {"5.1 closed by RST_STREAM: DATA", "H 1 H GET; R 1 8; D 1 S test",
     "head 1 GET / host=a\n"
     "reset 1 by peer\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 closed by RST_STREAM: HEADERS", "H 1 H GET; R 1 8; H 1 SH GET",
     "head 1 GET / host=a\n"
     "reset 1 by peer\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 closed by RST_STREAM: CONTINUATION", "H 1 H GET; R 1 8; C 1 H x=y",
     "head 1 GET / host=a\n"
     "reset 1 by peer\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"5.1 closed by END_STREAM: DATA", "H 1 SH GET; answer 1 200 -; pack; D 1 S test",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 closed by END_STREAM: HEADERS", "H 1 SH GET; answer 1 200 -; pack; H 1 SH GET",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"5.1 closed by END_STREAM: CONTINUATION", "H 1 SH GET; answer 1 200 -; pack; C 1 H x=y",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"5.1 closed: PRIORITY is taken",
     "H 1 SH GET; answer 1 200 -; pack; F 2 0 1 0000000010; F 6 0 0 6869746869746869",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "PING ack hithithi\n"},
    {"5.1 closed: WINDOW_UPDATE and RST_STREAM may have been under way",
     "H 1 SH GET; answer 1 200 -; pack; W 1 1; R 1 8; F 6 0 0 6869746869746869",
     "head 1 GET / host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"
     "PING ack hithithi\n"},
    {"5.1 reset by us: DATA and trailers may be under way",
     "H 1 H POST content-length=1; D 1 - toolong; pack; D 1 - more; H 1 SH x=y; H 3 SH GET; answer "
     "3 200 -",
     "head 1 POST / content-length=1 host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"
     "head 3 GET / host=a last\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"5.1 reset by us: what is under way counts on the connection's window",
     "H 1 H POST content-length=1; D 1 - ab; pack; D 1 - *16384; D 1 - *16381",
     "head 1 POST / content-length=1 host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"
     "WINDOW_UPDATE 0 32767\n"},

    {"5.1.1 a stream number that is even", "H 2 SH GET", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.1.1 a stream number below an earlier one", "H 5 SH GET; H 3 SH GET",
     "head 5 GET / host=a last\n"
     "GOAWAY 5 PROTOCOL_ERROR\n"},
    {"5.1.1 a stream number far below", "H 2001 SH GET; H 3 SH GET",
     "head 2001 GET / host=a last\n"
     "GOAWAY 2001 PROTOCOL_ERROR\n"},
    {"5.1.1 DATA on a number that was skipped", "H 5 SH GET; D 3 S test",
     "head 5 GET / host=a last\n"
     "GOAWAY 5 PROTOCOL_ERROR\n"},
    {"5.3.1 a stream that depends on itself: HEADERS", "H 1 SHR on=1 GET",
     "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.3.1 a stream that depends on itself: PRIORITY", "F 2 0 1 0000000110",
     "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.4.1 after a connection error nothing is read", "F 6 0 1 0000000000000000; H 1 SH GET",
     "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"5.4.1 GOAWAY tells the last stream", "H 1 SH GET; H 3 SH GET; F 6 0 1 0000000000000000",
     "head 1 GET / host=a last\n"
     "head 3 GET / host=a last\n"
     "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"5.5 an unknown frame within a block", "H 1 S GET; F 22 0 1 00; C 1 H x=y",
     "GOAWAY 1 PROTOCOL_ERROR\n"},

    /* --- section 6: each frame --- */
    {"6.1 DATA in pieces", "H 1 H POST; D 1 - ab; D 1 - c; D 1 S d; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 4 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.1 DATA with padding", "H 1 H POST; D 1 SP pad=5 abc; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 3 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.1 DATA of padding alone", "H 1 H POST; D 1 SP pad=5; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 0 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.1 DATA on stream 0", "D 0 S test", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.1 DATA whose padding exceeds it", "H 1 H POST; F 0 9 1 06746573",
     "head 1 POST / host=a\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.1 padded DATA without the length of it", "H 1 H POST; F 0 9 1",
     "head 1 POST / host=a\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.2 HEADERS with padding", "H 1 SHP pad=7 GET; answer 1 200 -", ANSWERED_1},
    {"6.2 HEADERS with a priority", "H 1 SHR on=0 GET; answer 1 200 -", ANSWERED_1},
    {"6.2 HEADERS with both", "H 1 SHPR pad=1 on=0 GET; answer 1 200 -", ANSWERED_1},
    {"6.2 HEADERS on stream 0", "H 0 SH GET", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.2 HEADERS whose padding exceeds it", "F 1 d 1 1082868441", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.2 HEADERS without room for its priority", "F 1 25 1 00000000",
     "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.3 PRIORITY of each weight",
     "F 2 0 1 0000000000; F 2 0 3 00000001ff; F 2 0 5 8000000310; H 1 SH GET; answer 1 200 -",
     ANSWERED_1},
    {"6.3 PRIORITY on stream 0", "F 2 0 0 0000000010", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.3 PRIORITY of four bytes", "H 1 H POST; F 2 0 1 00000000",
     "head 1 POST / host=a\n"
     "GOAWAY 1 FRAME_SIZE_ERROR\n"},
    {"6.4 RST_STREAM on stream 0", "R 0 8", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.4 RST_STREAM of three bytes", "H 1 SH GET; F 3 0 1 000000",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 FRAME_SIZE_ERROR\n"},
    {"6.4 RST_STREAM in a body", "H 1 H POST; D 1 - ab; R 1 8",
     "head 1 POST / host=a\n"
     "body 1 2\n"
     "reset 1 by peer\n"},
    {"6.5 SETTINGS are acknowledged", "S 3=10 6=100; S", "SETTINGS ack\nSETTINGS ack\n"},
    {"6.5 SETTINGS on a stream", "F 4 0 1 000300000064", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.5 SETTINGS of five bytes", "F 4 0 0 0003000000", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.5 an acknowledgement with content", "F 4 1 0 00", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.5.2 ENABLE_PUSH of 2", "S 2=2", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.5.2 INITIAL_WINDOW_SIZE of 2^31", "S 4=2147483648", "GOAWAY 0 FLOW_CONTROL_ERROR\n"},
    {"6.5.2 MAX_FRAME_SIZE below 2^14", "S 5=16383", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.5.2 MAX_FRAME_SIZE above 2^24 - 1", "S 5=16777216", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.5.2 an unknown setting is passed over", "S 255=1; H 1 SH GET; answer 1 200 -",
     GET_1 " last\nSETTINGS ack\n" OK_1},
    {"6.5.3 of a setting twice the last counts", "S 4=100 4=1; H 1 SH GET; answer 1 200 hello",
     "head 1 GET / host=a last\n"
     "SETTINGS ack\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 1\n"},
    {"6.6 PUSH_PROMISE", "H 1 H GET; F 5 4 1 0000000282868441",
     "head 1 GET / host=a\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.7 PING is answered", "F 6 0 0 6162636465666768", "PING ack abcdefgh\n"},
    {"6.7 PING with ACK is not", "F 6 1 0 6162636465666768; F 6 0 0 6869746869746869",
     "PING ack hithithi\n"},
    {"6.7 PING on a stream", "F 6 0 1 6162636465666768", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.7 PING of six bytes", "F 6 0 0 616263646566", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.8 GOAWAY on a stream", "F 7 0 1 0000000000000000", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.8 GOAWAY of four bytes", "F 7 0 0 00000000", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.8 streams go on behind GOAWAY",
     "H 1 H POST; F 7 0 0 0000000000000000; D 1 S abc; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 3 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.9 WINDOW_UPDATE of 0 on the connection", "W 0 0", "GOAWAY 0 PROTOCOL_ERROR\n"},
    {"6.9 WINDOW_UPDATE of 0 on a stream", "H 1 SH GET; W 1 0",
     "head 1 GET / host=a last\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.9 WINDOW_UPDATE of three bytes", "F 8 0 0 000001", "GOAWAY 0 FRAME_SIZE_ERROR\n"},
    {"6.9.1 no more than the window is sent",
     "S 4=1; H 1 SH GET; answer 1 200 hello; pack; W 1 2; pack; W 1 100",
     "head 1 GET / host=a last\n"
     "SETTINGS ack\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 1\n"
     "DATA 1 2\n"
     "DATA 1 2 end\n"},
    {"6.9.1 the connection's window above 2^31 - 1", "W 0 2147483647",
     "GOAWAY 0 FLOW_CONTROL_ERROR\n"},
    {"6.9.1 a stream's window above 2^31 - 1", "H 1 SH GET; W 1 2147483647",
     "head 1 GET / host=a last\n"
     "reset 1\n"
     "RST_STREAM 1 FLOW_CONTROL_ERROR\n"},
    {"6.9.1 DATA beyond the stream's window", "H 1 H POST; * 4 D 1 - *16384; D 1 - a",
     "head 1 POST / host=a\n"
     "body 1 49152\n"
     "GOAWAY 1 FLOW_CONTROL_ERROR\n"},
    {"6.9.2 a window that changes under an open stream",
     "S 4=0; H 1 SH GET; answer 1 200 hello; pack; S 4=1",
     "head 1 GET / host=a last\n"
     "SETTINGS ack\n"
     "HEADERS 1 :status=200 server=s\n"
     "SETTINGS ack\n"
     "DATA 1 1\n"},
    {"6.9.2 a window that becomes negative",
     "S 4=3; H 1 SH GET; answer 1 200 hello; pack; S 4=2; pack; W 1 1; pack; W 1 1",
     "head 1 GET / host=a last\n"
     "SETTINGS ack\n"
     "HEADERS 1 :status=200 server=s\n"
     "DATA 1 3\n"
     "SETTINGS ack\n"
     "DATA 1 1\n"},
    {"6.9.2 a window that a change makes too large", "H 1 SH GET; W 1 2147418112; S 4=65536",
     "head 1 GET / host=a last\n"
     "reset 1\n"
     "SETTINGS ack\n"
     "RST_STREAM 1 FLOW_CONTROL_ERROR\n"},
    {"6.10 CONTINUATION", "H 1 S GET; C 1 - a=b; C 1 H c=d; answer 1 200 -",
     "head 1 GET / a=b c=d host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.10 eight of them", "H 1 S GET; * 7 C 1 - a=b; C 1 H c=d; answer 1 200 -",
     "head 1 GET / a=b a=b a=b a=b a=b a=b a=b c=d host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"6.10 nine of them", "H 1 S GET; * 8 C 1 - a=b; C 1 H c=d", "GOAWAY 1 ENHANCE_YOUR_CALM\n"},
    {"6.10 CONTINUATION on stream 0", "H 1 S GET; C 0 H a=b", "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.10 CONTINUATION behind END_HEADERS", "H 1 H GET; C 1 H a=b",
     "head 1 GET / host=a\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.10 CONTINUATION behind one with END_HEADERS", "H 1 - GET; C 1 H a=b; C 1 H a=b",
     "head 1 GET / a=b host=a\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.10 CONTINUATION behind DATA", "H 1 H POST; D 1 - a; C 1 H a=b",
     "head 1 POST / host=a\n"
     "body 1 1\n"
     "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"6.10 DATA within a block", "H 1 - GET; D 1 S a", "GOAWAY 1 PROTOCOL_ERROR\n"},
    {"7 unknown codes mean nothing", "H 1 SH GET; R 1 255; F 7 0 0 00000000000000ff",
     "head 1 GET / host=a last\n"
     "reset 1 by peer\n"},

    /* --- section 8: messages --- */
    {"8.1 a body and trailers", "H 1 H POST; D 1 - abc; H 1 SH x=y; answer 1 200 -",
     "head 1 POST / host=a\n"
     "body 1 3\n"
     "trailers 1 x=y\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"8.1 a HEAD", "H 1 SH HEAD; answer 1 200 -", "head 1 HEAD / host=a last\n" OK_1},
    {"8.1 a second head without END_STREAM", "H 1 H POST; H 1 H x=y",
     "head 1 POST / host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1 a body behind trailers", "H 1 H POST; H 1 SH x=y; D 1 S a",
     "head 1 POST / host=a\n"
     "trailers 1 x=y\n"
     "GOAWAY 1 STREAM_CLOSED\n"},
    {"8.1.1 Content-Length above the body", "H 1 H POST content-length=5; D 1 S test",
     "head 1 POST / content-length=5 host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1.1 Content-Length below the body", "H 1 H POST content-length=1; D 1 - te; D 1 S st",
     "head 1 POST / content-length=1 host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1.1 Content-Length above a body in pieces",
     "H 1 H POST content-length=5; D 1 - te; D 1 S st",
     "head 1 POST / content-length=5 host=a\n"
     "body 1 2\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1.1 Content-Length above a body that trailers end",
     "H 1 H POST content-length=5; D 1 - te; H 1 SH x=y",
     "head 1 POST / content-length=5 host=a\n"
     "body 1 2\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1.1 Content-Length without a body", "H 1 SH POST content-length=5",
     "malformed: Content-Length announces a body, and none follows\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.1.1 Content-Length of the body",
     "H 1 H POST content-length=4; D 1 - te; D 1 S st; answer 1 200 -",
     "head 1 POST / content-length=4 host=a\n"
     "body 1 4 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"8.1.1 Content-Length of none", "H 1 H POST content-length=0; D 1 S; answer 1 200 -",
     "head 1 POST / content-length=0 host=a\n"
     "body 1 0 last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"8.2 upper case in a name", "H 1 SH GET X-Y=z",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.2.2 Connection", "H 1 SH GET connection=keep-alive",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.2.2 TE other than trailers", "H 1 SH GET te=trailers,%20deflate",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.2.2 TE: trailers is taken", "H 1 SH GET te=trailers; answer 1 200 -",
     "head 1 GET / te=trailers host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"8.3 an unknown pseudo-field", "H 1 SH GET :test=ok",
     "malformed: a pseudo-field is unknown\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3 a pseudo-field of answers", "H 1 SH GET :status=200",
     "malformed: a pseudo-field is unknown\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3 a pseudo-field in trailers", "H 1 H POST; H 1 SH :method=GET",
     "head 1 POST / host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3 a pseudo-field behind a field",
     "H 1 SH :method=GET :scheme=https x=y :path=/ :authority=a",
     "malformed: a pseudo-field stands behind other fields\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 an empty path", "H 1 SH :method=GET :scheme=https :path= :authority=a",
     "malformed: a pseudo-field is empty\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 no method", "H 1 SH :scheme=https :path=/ :authority=a",
     "malformed: the pseudo-field :method is missing\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 no scheme", "H 1 SH :method=GET :path=/ :authority=a",
     "malformed: the pseudo-field :scheme or :path is missing\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 no path", "H 1 SH :method=GET :scheme=https :authority=a",
     "malformed: the pseudo-field :scheme or :path is missing\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 two methods", "H 1 SH GET :method=GET",
     "malformed: a pseudo-field is repeated\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 two schemes", "H 1 SH GET :scheme=https",
     "malformed: a pseudo-field is repeated\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.3.1 two paths", "H 1 SH GET :path=/",
     "malformed: a pseudo-field is repeated\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"8.4 PUSH_PROMISE of a client", "F 5 4 1 0000000282868441", "GOAWAY 0 PROTOCOL_ERROR\n"},

    /* --- RFC 7541 --- */
    {"HPACK 2.3.3 an index beyond the tables", "F 1 5 1 c6", "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 2.3.3 a literal with such a name", "F 1 5 1 7f000162", "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 4.2 a size update at the end of a block", "F 1 5 1 828641016184 20",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 4.3 a size update, and two of them",
     "F 1 5 1 20 828741016184; F 1 5 3 203fe11f 828741016184",
     "head 1 GET / host=a last\n"
     "head 3 GET / host=a last\n"},
    {"HPACK 5.2 padding of more than 7 bits", "F 1 5 1 8287410161840083f2b4ffff0161",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 5.2 padding of zeros", "F 1 5 1 828741016184008278700161",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 5.2 the code of the end of a string", "F 1 5 1 82874101618400 84 ffffffff 0161",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 5.1 an integer that is too large", "F 1 5 1 ffffffffffffffffffffff0f",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 6.1 an index of 0", "F 1 5 1 80", "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 6.2.1 literals that are indexed, and their use",
     "F 1 5 1 8287 84 410161 40017801 79; F 1 5 3 8287 84 bf be",
     "head 1 GET / x=y host=a last\n"
     "head 3 GET / x=y host=a last\n"},
    {"HPACK 6.2.2 literals that are not, with a name of the table",
     "F 1 5 1 8287 84 01 01 61 0f04 03 612f62", "head 1 GET / accept=a/b host=a last\n"},
    {"HPACK 6.2.3 literals that never are", "F 1 5 1 8287 84 410161 1001780179",
     "head 1 GET / x=y host=a last\n"},
    {"HPACK 6.3 a size update above the maximum", "F 1 5 1 3fe21f 828741016184",
     "GOAWAY 1 COMPRESSION_ERROR\n"},
    {"HPACK 5.2 Huffman codes", "F 1 5 1 8287 84 418cf1e3c2e5f23a6ba0ab90f4ff",
     "head 1 GET / host=www.example.com last\n"},
};

START_TEST(each_section)
{
    const struct row *row = &ROWS[_i];
    const char *transcript = peer_run(row->script);
    ck_assert_msg(strcmp(transcript, row->transcript) == 0, "%s:\n%s\n%s", row->section,
                  row->script, transcript);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/conformance");
    TCase *tcase = tcase_create("conformance");
    tcase_add_loop_test(tcase, each_section, 0, ARRAY_LEN(ROWS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
