#include "base/list.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/status.h"

struct item {
    int value;
    struct list node;
};

/* The values of @head's items as the digits of one number. */
static int digits(const struct list *head)
{
    int number = 0;

    for (struct list *node = head->next; node != head; node = node->next) {
        number = number * 10 + CONTAINER_OF(node, struct item, node)->value;
    }
    return number;
}

START_TEST(nodes_stand_in_the_order_they_were_pushed)
{
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct list head;

    list_init(&head);
    ck_assert(list_is_empty(&head));
    list_push_back(&head, &items[1].node);
    list_push_back(&head, &items[2].node);
    list_push_front(&head, &items[0].node);
    ck_assert_int_eq(digits(&head), 123);
}
END_TEST

START_TEST(a_removed_node_is_in_no_list_and_may_go_again)
{
    struct item items[] = {{.value = 1}, {.value = 2}};
    struct list head;

    list_init(&head);
    list_push_back(&head, &items[0].node);
    list_push_back(&head, &items[1].node);
    list_remove(&items[0].node);
    ck_assert_int_eq(digits(&head), 2);
    ck_assert(list_is_empty(&items[0].node));
    list_remove(&items[0].node);
    list_remove(&items[1].node);
    ck_assert(list_is_empty(&head));
}
END_TEST

START_TEST(all_nodes_of_a_list_move_to_another_in_their_order)
{
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct list from;
    struct list head;

    list_init(&from);
    list_move_all(&head, &from);
    ck_assert(list_is_empty(&head) && list_is_empty(&from));
    for (int i = 0; i < 3; i++) {
        list_push_back(&from, &items[i].node);
    }
    list_move_all(&head, &from);
    ck_assert(list_is_empty(&from));
    ck_assert_int_eq(digits(&head), 123);
    list_remove(&items[1].node);
    ck_assert_int_eq(digits(&head), 13);
}
END_TEST

START_TEST(every_status_has_a_text)
{
    ck_assert_str_eq(status_text(STATUS_OK), "ok");
    for (int status = STATUS_OK; status <= STATUS_IO; status++) {
        ck_assert_str_ne(status_text((enum status)status), "unknown status");
    }
    ck_assert_str_eq(status_text((enum status)(STATUS_IO + 1)), "unknown status");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/list");
    TCase *all = tcase_create("list, status");

    tcase_add_test(all, nodes_stand_in_the_order_they_were_pushed);
    tcase_add_test(all, a_removed_node_is_in_no_list_and_may_go_again);
    tcase_add_test(all, all_nodes_of_a_list_move_to_another_in_their_order);
    tcase_add_test(all, every_status_has_a_text);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
