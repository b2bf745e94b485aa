/* `sluice locks`: an administrator of the locks in the fleet's store: who has which, and to end
 * that. No sluice has to run. */
#ifndef CLI_LOCK_LIST_H
#define CLI_LOCK_LIST_H

extern const char cli_locks_usage[];

/* `argv[0]` is the command's word. Returns the exit status, as of enum lock_exit; 0 when it is
 * done. */
int cli_locks(int argc, char **argv);

#endif
