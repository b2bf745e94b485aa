/* `sluice locks`: an administrator of the locks in the store of the fleet: lists them with their
 * holders, and ends a holder's session. No sluice has to run. */
#ifndef CLI_LOCK_LOCK_LIST_H
#define CLI_LOCK_LOCK_LIST_H

extern const char cli_locks_usage[];

/* `argv[0]` is the command's word. Returns the exit status, as of enum lock_exit; 0 when it is
 * done. */
int cli_locks(int argc, char **argv);

#endif
