#include "policy/key_sources.h"

#include "tls/client_certificate.h"

const struct key_source_row KEY_SOURCE_ROWS[KEY_SOURCES] = {
#define KEY_SOURCE_ROW(id, name, word, naming, origin, detail, values, reader, pattern)            \
    [KEY_##id] = {{name, sizeof(name) - 1},                                                        \
                  {word, sizeof(word) - 1},                                                        \
                  KEY_NAMING_##naming,                                                             \
                  KEY_FROM_##origin,                                                               \
                  detail,                                                                          \
                  KEY_VISIBLE_##values},
    KEY_SOURCE_LIST(KEY_SOURCE_ROW)
#undef KEY_SOURCE_ROW
};
