/*
 * Can what the configuration names be written? Its folders and files are asked for their
 * permissions, as access(2) does: nothing is made, opened or changed, so that a running sluice that
 * uses them is not disturbed.
 */
#ifndef CLI_PLACES_H
#define CLI_PLACES_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * Tests the log files and the folders of sockets for the calling user, and `state` and `pid_file`
 * for whom the daemon will be: `user` when root starts it. When root does not call but `user` is
 * set, that can't be known; then a note reports that nothing was tested. Returns whether the start
 * will not fail by one of them, with what is wrong on stderr, one a line, with file and line.
 */
bool cli_check_places(const struct conf *conf);

#endif
