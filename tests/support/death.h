/* Tests of what ends the process. */

#ifndef SLUICE_TESTS_DEATH_H
#define SLUICE_TESTS_DEATH_H

/* Assert that @run, in a process of its own, aborts and that @message is all that it writes to
 * standard error. */
void death_expect(void (*run)(void), const char *message);

#endif /* SLUICE_TESTS_DEATH_H */
