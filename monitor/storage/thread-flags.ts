/** For threads that load node:sqlite, or start one that does: the warning that it is experimental would come once per thread. */
export const QUIET = ['--disable-warning=ExperimentalWarning']
