/* The heads that HTTP/2 brings, by the rules of HTTP/1.1 and its own (http/head_builder.h). Those
 * that break a rule of HTTP/2 are reset, those that HTTP/1.1 would refuse are answered. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http2/peer.h"

struct row {
    const char *what;
    const char *script;
    const char *transcript;
};

static const struct row ROWS[] = {
    /* --- refused, never escaped --- */
    {"an empty name", "H 1 SH GET =v",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a space in a name", "H 1 SH GET a%20b=v",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a colon in a name", "H 1 SH GET a:b=v",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a control in a name", "H 1 SH GET a%01=v",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a byte beyond ASCII in a name", "H 1 SH GET a%ff=v",
     "malformed: the name of a field is not a token in lower case\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"LF in a value", "H 1 SH GET a=b%0ac",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"CR in a value", "H 1 SH GET a=b%0dc",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"NUL in a value", "H 1 SH GET a=b%00c",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"another control in a value", "H 1 SH GET a=b%1fc",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"HTAB and bytes beyond ASCII in a value are taken", "H 1 SH GET a=b%09%e4c",
     "head 1 GET / a=b\t\344c host=a last\n"},
    {"a space before a value", "H 1 SH GET a=%20b",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a tab behind a value", "H 1 SH GET a=b%09",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"an empty value is one", "H 1 SH GET a=", "head 1 GET / a= host=a last\n"},
    {"LF in the path", "H 1 SH :method=GET :scheme=https :path=/a%0ab :authority=a",
     "malformed: a value has a control byte, or white space at its ends\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a space in the path", "H 1 SH :method=GET :scheme=https :path=/a%20b :authority=a",
     "head 1 400 the target holds white space, a control, a byte beyond ASCII or # last\n"},
    {"a fragment in the path", "H 1 SH :method=GET :scheme=https :path=/a%23b :authority=a",
     "head 1 400 the target holds white space, a control, a byte beyond ASCII or # last\n"},
    {"a space in the method", "H 1 SH :method=GE%20T :scheme=https :path=/ :authority=a",
     "head 1 400 the method is not a token last\n"},
    {"a long method", "H 1 SH :method=*33 :scheme=https :path=/ :authority=a",
     "head 1 501 the method is too long last\n"},
    {"a scheme in capitals", "H 1 SH :method=GET :scheme=HTTPS :path=/ :authority=a",
     "head 1 GET / host=a last\n"},
    {"another scheme", "H 1 SH :method=GET :scheme=ftp :path=/ :authority=a",
     "malformed: the scheme is neither http nor https\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"an empty scheme", "H 1 SH :method=GET :scheme= :path=/ :authority=a",
     "malformed: a pseudo-field is empty\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"an empty authority", "H 1 SH :method=GET :scheme=https :path=/ :authority=",
     "malformed: a pseudo-field is empty\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"no authority and no Host", "H 1 SH :method=GET :scheme=https :path=/",
     "head 1 400 Host is missing last\n"},
    {"an authority and no path", "H 1 SH :method=GET :scheme=https :authority=a",
     "malformed: the pseudo-field :scheme or :path is missing\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a path that does not start with a slash",
     "H 1 SH :method=GET :scheme=https :path=a :authority=a",
     "malformed: the path does not start with /\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"an absolute path", "H 1 SH :method=GET :scheme=https :path=http://b/ :authority=a",
     "malformed: the path does not start with /\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"the asterisk", "H 1 SH :method=GET :scheme=https :path=* :authority=a",
     "malformed: the path does not start with /\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"the asterisk of OPTIONS", "H 1 SH :method=OPTIONS :scheme=https :path=* :authority=a",
     "head 1 OPTIONS * host=a last\n"},
    {"user information in the authority", "H 1 SH :method=GET :scheme=https :path=/ :authority=u@a",
     "head 1 400 Host is not a host last\n"},
    {"CONNECT", "H 1 H :method=CONNECT :authority=a:443", "head 1 501 CONNECT is not served\n"},
    {"CONNECT with a path", "H 1 H :method=CONNECT :scheme=https :path=/ :authority=a:443",
     "malformed: the pseudo-fields are not those of CONNECT\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"CONNECT with a protocol",
     "H 1 H :method=CONNECT :protocol=websocket :scheme=https :path=/ :authority=a",
     "malformed: a pseudo-field is unknown\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"two authorities", "H 1 SH GET :authority=a",
     "malformed: a pseudo-field is repeated\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a pseudo-field without a name", "H 1 SH GET :=a",
     "malformed: a pseudo-field is unknown\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"Keep-Alive", "H 1 SH GET keep-alive=x",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"Proxy-Connection", "H 1 SH GET proxy-connection=x",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"Transfer-Encoding", "H 1 H GET transfer-encoding=chunked",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"Upgrade", "H 1 SH GET upgrade=h2c",
     "malformed: a field of the connection stands in HTTP/2\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"TE: trailers in capitals", "H 1 SH GET te=Trailers",
     "head 1 GET / te=Trailers host=a last\n"},
    {"Connection in trailers", "H 1 H POST; H 1 SH connection=close",
     "head 1 POST / host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"upper case in trailers", "H 1 H POST; H 1 SH A=b",
     "head 1 POST / host=a\n"
     "reset 1\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},

    /* --- Host --- */
    {"Host without an authority", "H 1 SH :method=GET :scheme=https :path=/ host=b",
     "head 1 GET / host=b last\n"},
    {"Host that is the authority", "H 1 SH GET host=A", "head 1 GET / host=A last\n"},
    {"Host that differs", "H 1 SH GET host=b",
     "malformed: the pseudo-field :authority differs from Host\n"
     "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"Host twice", "H 1 SH GET host=a host=a", "head 1 400 Host is repeated last\n"},
    {"a port", "H 1 SH :method=GET :scheme=https :path=/ :authority=a:8443",
     "head 1 GET / host=a:8443 last\n"},

    /* --- what HTTP/1.1 refuses --- */
    {"Content-Length that is no number", "H 1 H POST content-length=+4",
     "head 1 400 Content-Length is not a number below 2^63\n"},
    {"Content-Length twice", "H 1 H POST content-length=4 content-length=4",
     "head 1 400 Content-Length is repeated\n"},
    {"an underscore variant", "H 1 SH GET content_length=4",
     "head 1 400 a field's name is a known one with other punctuation, or CGI's last\n"},
    {"an expectation", "H 1 H POST expect=100-continue; interim 1 100; D 1 S ab; answer 1 200 -",
     "head 1 POST / expect=100-continue host=a\n"
     "body 1 2 last\n"
     "HEADERS 1 :status=100 server=s\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"another expectation", "H 1 H POST expect=200-ok",
     "head 1 417 the expectation is not 100-continue\n"},
    {"Max-Forwards", "H 1 SH :method=OPTIONS :scheme=https :path=/ :authority=a max-forwards=x",
     "head 1 400 Max-Forwards is not one number last\n"},
    {"a refused request is answered",
     "H 1 SH :method=GET :scheme=https :path=/ :authority=u@a; answer 1 400 -",
     "head 1 400 Host is not a host last\n"
     "HEADERS 1 :status=400 server=s end\n"},

    /* --- Cookie --- */
    {"pieces of Cookie are joined", "H 1 SH GET cookie=a=b cookie=c=d cookie=e",
     "head 1 GET / cookie=a=b; c=d; e host=a last\n"},
    {"pieces of Cookie that stand apart", "H 1 SH GET cookie=a=b x=y cookie=c=d z=z cookie=e",
     "head 1 GET / cookie=a=b; c=d; e x=y z=z host=a last\n"},

    /* --- sizes: 4096 bytes and 24 fields --- */
    {"the most bytes", "H 1 SH GET x=*4064; answer 1 200 -",
     "head 1 GET / x=*4064 host=a last\n"
     "HEADERS 1 :status=200 server=s end\n"},
    {"a byte more", "H 1 SH GET x=*4065; answer 1 431 -",
     "head 1 431 the head is too large last\n"
     "HEADERS 1 :status=431 server=s end\n"},
    {"a path that is too long", "H 1 SH :method=GET :scheme=https :path=*8193 :authority=a",
     "head 1 414 the target is too long last\n"},

    {"a field too many",
     "H 1 SH GET a=1 a=2 a=3 a=4 a=5 a=6 a=7 a=8 a=9 a=10 a=11 a=12 a=13 a=14 a=15 a=16 a=17 a=18 "
     "a=19 a=20 a=21 a=22 a=23 a=24",
     "head 1 431 the head has too many fields last\n"},
    {"HPACK goes on behind what is too large",
     "H 1 S GET x=*5000; C 1 H hex=4001780179; H 3 SH GET hex=be; answer 1 431 -; answer 3 200 -",
     "head 1 431 the head is too large last\n"
     "head 3 GET / x=y host=a last\n"
     "HEADERS 1 :status=431 server=s end\n"
     "HEADERS 3 :status=200 server=s end\n"},
    {"trailers that are too large", "H 1 H POST; D 1 - a; H 1 SH x=*5000",
     "head 1 POST / host=a\n"
     "body 1 1\n"
     "bad trailers 1 431\n"},
};

START_TEST(each_row)
{
    const struct row *row = &ROWS[_i];
    const char *transcript = peer_run(row->script);
    ck_assert_msg(strcmp(transcript, row->transcript) == 0, "%s:\n%s\n%s", row->what, row->script,
                  transcript);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/heads");
    TCase *tcase = tcase_create("heads");
    tcase_add_loop_test(tcase, each_row, 0, ARRAY_LEN(ROWS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
