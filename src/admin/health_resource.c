/* GET /healthz: alive. Every worker beats once a second from its loop; one that has not for longer
 * than a busy machine explains hangs, and a restart is the only help. */

#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "proxy/server.h"

enum { SILENCE_US_MAX = 10 * 1000 * 1000 };

void health_handle(struct admin_request *request)
{
    struct server_pulse pulse;
    server_read_pulse(request->admin->options.server, clock_monotonic_us(), &pulse);
    if (pulse.silence_us > SILENCE_US_MAX) {
        answer_problem(request, 503, "the loop of worker %u has not turned for %llu s",
                       pulse.slowest, (unsigned long long)(pulse.silence_us / 1000000));
        return;
    }
    answer_json(request, 200,
                json_pack("{ss, si, sI}", "status", "alive", "workers", (int)pulse.n_workers,
                          "silence_ms", (json_int_t)(pulse.silence_us / 1000)));
}
