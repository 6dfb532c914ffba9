/* What the admin API does when a reload has ended. */

#ifndef SLUICE_ADMIN_RELOAD_RESOURCE_H
#define SLUICE_ADMIN_RELOAD_RESOURCE_H

struct admin;

/* Answer those who wait for it. */
void reload_resource_on_ended(struct admin *admin);

#endif /* SLUICE_ADMIN_RELOAD_RESOURCE_H */
