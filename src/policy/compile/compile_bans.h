/* The stage of the bans that limits set. */

#ifndef SLUICE_POLICY_COMPILE_COMPILE_BANS_H
#define SLUICE_POLICY_COMPILE_COMPILE_BANS_H

struct compiler;

/* Set when the rules, which are compiled, ban keys. */
void compile_bans(struct compiler *compiler);

#endif /* SLUICE_POLICY_COMPILE_COMPILE_BANS_H */
