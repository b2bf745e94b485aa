/* The command about the fleet. */
#ifndef CLI_OPERATE_FLEET_H
#define CLI_OPERATE_FLEET_H

struct call;

/* Its nodes and their store; with --wait-nodes N, when it has so many. Returns an exit status: 1
 * too when it has fewer after a minute. */
int cli_fleet(struct call *call);

#endif
