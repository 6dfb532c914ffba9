#include "one_exchange.h"

#include <check.h>
#include <string.h>

#include "support/iterations.h"

struct stage stage;
struct fake_client client;

void one_exchange_open(const char *yaml)
{
    stage_open(&stage, yaml);
    one_exchange_again();
}

void one_exchange_close(void)
{
    if (client.exchange != NULL) {
        exchange_on_client_gone(client.exchange);
    }
    stage_close(&stage);
}

void one_exchange_again(void)
{
    fake_client_open(&client, &stage, "192.0.2.1");
}

int begin_post(const char *head)
{
    fake_client_send_head(&client, head);
    const int fd = server_accept(&stage);
    while (client.n_pumps == 0) {
        iterations_once(stage.worker.env.loop);
    }
    return fd;
}

int begin_get(const char *path)
{
    char head[128];
    struct text text = text_of(head, sizeof(head) - 1);
    text_add_format(&text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    head[text.len] = '\0';
    fake_client_send_head(&client, head);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    return fd;
}

void await_end(void)
{
    iterations_until(stage.worker.env.loop, &client.is_over);
}

void await_sends(unsigned n)
{
    iterations_until_count(stage.worker.env.loop, &client.n_sends, n);
}

void assert_answer(const char *expected)
{
    ck_assert_str_eq(fake_client_answer(&client), expected);
}

void assert_answer_starts(const char *expected)
{
    ck_assert_msg(strncmp(fake_client_answer(&client), expected, strlen(expected)) == 0,
                  "'%s' does not start with '%s'", fake_client_answer(&client), expected);
}

bool answer_has(const char *text)
{
    return strstr(fake_client_answer(&client), text) != NULL;
}

void assert_over(enum exchange_state state)
{
    ck_assert(client.is_over);
    ck_assert_int_eq(client.last_state, state);
}
