/* Happy path: the owner of the slot is asked ─► it answers.
 *
 *   MOVED                 the node that is named is asked, the map is corrected, and asked for anew
 *   ASK                   the node that is named is asked, behind ASKING, this once
 *   too many of these     the answer is what the last one said: a failure
 *   TRYAGAIN              the part is marked: key by key it may pass
 *   any other failure     the answer; the map is asked for anew where it may have changed
 * None of these replies has changed anything: the call can be made again. */

#include "base/clock.h"
#include "store/redis_cluster.h"

enum {
    REDIRECTIONS_MAX = 4
}; /* of one call: MOVED to a node that says ASK, once more while the map changes */

static void ask_node(struct redis_cluster_part *part, struct redis_cluster_node *node, bool asking);

/* What of an unanswered question nobody has told the cluster. */
static void fail_here(struct redis_cluster_part *part, enum status status)
{
    part->decision.status = status;
    part->decision.source = DECISION_REDIS;
}

/* Whether @part was sent on, as @fault and @text say. */
static bool follow(struct redis_cluster_part *part, enum redis_fault fault, struct span text)
{
    struct redis_cluster_node *node = part->n_redirections == REDIRECTIONS_MAX
                                          ? NULL
                                          : redis_cluster_nodes_follow(part->node, fault, text);
    if (node == NULL) {
        return false;
    }
    part->n_redirections++;
    part->ticket->cluster->counters.n_redirections++;
    ask_node(part, node, fault == REDIS_FAULT_ASK);
    return true;
}

/* Whether what ails the node may be that it is no longer the one. */
static bool is_doubtful(enum redis_fault fault)
{
    return fault == REDIS_FAULT_DEADLINE || fault == REDIS_FAULT_CLUSTERDOWN ||
           redis_fault_row(fault)->reaction == REDIS_DROP;
}

/* The node has failed to decide. Whether @part is asked elsewhere. */
static bool try_elsewhere(struct redis_cluster_part *part)
{
    struct span text;
    const enum redis_fault fault = redis_store_fault(part->node->store, &text);
    if (fault == REDIS_FAULT_MOVED || fault == REDIS_FAULT_ASK) {
        return follow(part, fault, text);
    }
    if (fault == REDIS_FAULT_TRYAGAIN) {
        part->is_unstable = true;
        part->ticket->cluster->unstable_us = clock_monotonic_us();
    }
    if (is_doubtful(fault)) {
        redis_cluster_nodes_doubt(&part->ticket->cluster->nodes);
    }
    return false;
}

static void on_answer(struct decision *decision)
{
    struct redis_cluster_part *part = decision->context;
    part->is_pending = false;
    part->ticket->n_pending--;
    if (decision->status == STATUS_OK || !try_elsewhere(part) || !part->is_pending) {
        redis_cluster_on_part(part);
    }
}

static void ask_node(struct redis_cluster_part *part, struct redis_cluster_node *node, bool asking)
{
    part->node = node;
    if (redis_node_decide(node->store, &part->decision, on_answer, asking) == STORE_PENDING) {
        part->is_pending = true;
        part->ticket->n_pending++;
    } else if (part->decision.status != STATUS_OK) {
        (void)try_elsewhere(part);
    }
}

void redis_cluster_ask(struct redis_cluster_part *part, enum decision_aim aim)
{
    struct redis_cluster *cluster = part->ticket->cluster;
    struct redis_cluster_node *node = redis_cluster_nodes_find(&cluster->nodes, part->slot);
    part->decision.aim = aim;
    part->decision.context = part;
    part->n_redirections = 0;
    part->is_unstable = false;
    part->is_asked = true;
    if (node == NULL) {
        fail_here(part, STATUS_UNREACHABLE);
    } else {
        ask_node(part, node, false);
    }
}
