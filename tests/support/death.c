#include "support/death.h"

#include <check.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void death_expect(void (*run)(void), const char *message)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    char said[4096];
    size_t len = 0;
    ssize_t n;
    while ((n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    said[len] = '\0';
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d: %s", status,
                  said);
    ck_assert_str_eq(said, message);
}
