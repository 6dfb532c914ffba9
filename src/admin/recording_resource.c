/* The recording of this process's requests, for a replay: POST /v1/recording begins one, GET says
 * how it stands, POST /v1/recording/stop ends it, DELETE forgets it. */

#include "proxy/recording.h"

#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"

#define US_PER_S UINT64_C(1000000)

static const char *name_of(enum recording_state state)
{
    switch (state) {
    case RECORDING_NONE:
        return "none";
    case RECORDING_ON:
        return "recording";
    case RECORDING_COMPLETE:
        return "complete";
    case RECORDING_FULL:
        return "full";
    }
    return "none";
}

static void answer_state(struct admin_request *request)
{
    struct recording_report report;
    recording_read(clock_monotonic_us(), &report);
    answer_json(request, 200,
                json_pack("{ss, sI, sI, sI, sI, sI}", "state", name_of(report.state),
                          "seconds_left", (json_int_t)((report.left_us + US_PER_S - 1) / US_PER_S),
                          "lines", (json_int_t)report.n_lines, "bytes", (json_int_t)report.bytes,
                          "bytes_max", (json_int_t)RECORDING_BYTES_MAX, "too_long",
                          (json_int_t)report.n_too_long));
}

void recording_state_handle(struct admin_request *request)
{
    answer_state(request);
}

void recording_start_handle(struct admin_request *request)
{
    json_t *json = request_read_object(request);
    if (json == NULL) {
        return;
    }
    const json_t *seconds = json_object_get(json, "seconds");
    const json_int_t n_seconds = json_integer_value(seconds);
    const bool is_valid = json_is_integer(seconds) && json_object_size(json) == 1 &&
                          n_seconds >= 1 && n_seconds <= RECORDING_S_MAX;
    json_decref(json);
    if (!is_valid) {
        answer_problem(request, 400, "the body is {\"seconds\": N}, N from 1 to %d",
                       RECORDING_S_MAX);
    } else if (recording_start(clock_monotonic_us(), (uint64_t)n_seconds * US_PER_S) != STATUS_OK) {
        answer_problem(request, 503, "out of memory");
    } else {
        answer_note(request, "requests are recorded for %d s", (int)n_seconds);
        answer_state(request);
    }
}

void recording_stop_handle(struct admin_request *request)
{
    struct recording_report report;
    recording_read(clock_monotonic_us(), &report);
    if (report.state != RECORDING_ON) {
        answer_problem(request, 409, "no requests are being recorded");
        return;
    }
    recording_stop(clock_monotonic_us());
    answer_note(request, "the recording is stopped");
    answer_state(request);
}

void recording_forget_handle(struct admin_request *request)
{
    recording_forget();
    answer_note(request, "the recording is forgotten");
    answer_state(request);
}
