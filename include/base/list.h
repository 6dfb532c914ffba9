/* Doubly linked list whose nodes are members of what they link: no allocation, removal without
 * search. */

#ifndef SLUICE_BASE_LIST_H
#define SLUICE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A node, or the head of a list (a ring). A node that is in no list points to itself. */
struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

/* Whether a head has no nodes, or a node is in no list. */
static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_push_front(struct list *head, struct list *node)
{
    node->next = head->next;
    node->prev = head;
    head->next->prev = node;
    head->next = node;
}

/* A node that is in no list may be removed too. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* All nodes of @from, in their order, are those of @head, which need not be initialised. */
static inline void list_move_all(struct list *head, struct list *from)
{
    list_push_back(from, head);
    list_remove(from);
}

#endif /* SLUICE_BASE_LIST_H */
