/* `sluice run -c FILE`: loads, then serves until told to stop. Returns the exit status. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

int cli_run(const char *path);

#endif
