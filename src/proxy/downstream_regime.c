#include "proxy/downstream_regime.h"

#include "proxy/worker.h"

void downstream_enter_regime(struct downstream *downstream, struct regime *regime)
{
    downstream->regime = regime_join(regime);
    downstream->inbox.head_pool = &regime->stock->head_blocks;
    downstream->parser.n_fields_max = regime->policy->max.headers;
    downstream->parser.head_bytes_max = regime->policy->max.head_bytes;
}

void downstream_leave_regime(struct downstream *downstream)
{
    regime_leave(downstream->regime);
    downstream->regime = NULL;
}

void downstream_renew_regime(struct downstream *downstream)
{
    struct regime *before = downstream->regime;
    struct regime *regime = downstream->worker->regime;
    if (before != regime && (before->stock == regime->stock ||
                             inbox_move_head(&downstream->inbox, &regime->stock->head_blocks))) {
        downstream_enter_regime(downstream, regime);
        regime_leave(before);
    }
}
