#include "proxy/log_place.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

static enum status open_sink(const struct log_section *log, struct log_sink *sink)
{
    const enum status status = log->target == LOG_TO_SYSLOG
                                   ? log_sink_open_syslog(sink, log->path)
                                   : log_sink_open_file(sink, log->path.data);
    if (status != STATUS_OK) {
        log_error("proxy.log_place", "cannot open the access log", "place=\"%.*s\" err=\"%s\"",
                  SPAN_ARGS(log->path), strerror(errno));
    }
    return status;
}

static enum status open_output(const struct log_section *log, struct log_output **output)
{
    struct log_sink sink;
    if (log->target == LOG_TO_STDOUT) {
        return log_output_of_stdout(output);
    }
    const enum status status = open_sink(log, &sink);
    return status == STATUS_OK ? log_output_new(&sink, output) : status;
}

enum status log_place_open(const struct log_section *log, struct log_output **output)
{
    *output = NULL;
    if (log->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    const enum status status = open_output(log, output);
    if (status == STATUS_NO_MEMORY) {
        log_error("proxy.log_place", "no memory for the access log", "%s", "");
    }
    return status;
}

void log_place_reopen(const struct log_section *log, struct log_output *output)
{
    struct log_sink sink;
    if (output != NULL && log->target == LOG_TO_FILE && open_sink(log, &sink) == STATUS_OK) {
        log_output_replace(output, &sink);
        log_info("proxy.log_place", "the access log is opened anew", "file=\"%.*s\"",
                 SPAN_ARGS(log->path));
    }
}
