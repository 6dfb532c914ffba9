/* An intrusive doubly linked list: the nodes are members of the linked structs. No allocation, and
 * removal without a search. */

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

/* True if a head has no nodes, or if a node is in no list. */
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

/* Removing a node that is in no list has no effect. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Move all nodes of @from, in order, to @head, which need not be initialised. @from is then
 * empty. */
static inline void list_move_all(struct list *head, struct list *from)
{
    list_push_back(from, head);
    list_remove(from);
}

#endif /* SLUICE_BASE_LIST_H */
