/**
 * The tables (spec 8.2), as forward migrations: `user_version` is the number of steps applied to a file.
 *
 * A step that was released is never edited; a change is a new step at the end. Times are whole epoch seconds, booleans
 * are 1 and 0. Tables of millions of rows are WITHOUT ROWID: rows are stored in key order, so a site's history is contiguous.
 */

/** Beyond the spec's columns: region_state.vantages and agreeing (a snapshot needs them), detection.requeues (once). */
const FIRST = `
CREATE TABLE site (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE, -- never given to another site, so a removed one keeps its row
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  api_base TEXT NOT NULL,
  first_seen TEXT NOT NULL, -- YYYY-MM-DD
  state TEXT, -- outcome of the newest counted probe
  tier TEXT,
  tier_since INTEGER,
  score REAL,
  score_json TEXT,
  last_probed INTEGER,
  last_full INTEGER,
  catalogue_json TEXT NOT NULL,
  removed_at INTEGER
) STRICT;
CREATE TABLE alias (
  alias TEXT PRIMARY KEY,
  site_id INTEGER NOT NULL REFERENCES site,
  is_listed INTEGER NOT NULL, -- in the catalogue now
  was_slug INTEGER NOT NULL -- never reused
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_site ON alias (site_id);
CREATE TABLE vantage (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  region TEXT NOT NULL,
  country TEXT,
  token_hash TEXT,
  last_seen INTEGER,
  revoked_at INTEGER
) STRICT;
CREATE TABLE probe_raw (
  site_id INTEGER NOT NULL REFERENCES site,
  vantage_id INTEGER NOT NULL REFERENCES vantage,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  error TEXT,
  http_status INTEGER,
  dns_ms INTEGER,
  connect_ms INTEGER,
  tls_ms INTEGER,
  ttfb_ms INTEGER,
  total_ms INTEGER,
  PRIMARY KEY (site_id, vantage_id, at)
) STRICT, WITHOUT ROWID;
${bucketTable('probe_hour')}
${bucketTable('probe_day')}
CREATE TABLE observation (
  site_id INTEGER NOT NULL REFERENCES site,
  at INTEGER NOT NULL,
  profile_json TEXT NOT NULL,
  claimed_json TEXT NOT NULL,
  verified_json TEXT NOT NULL,
  PRIMARY KEY (site_id, at)
) STRICT, WITHOUT ROWID;
CREATE TABLE model_seen (
  site_id INTEGER NOT NULL REFERENCES site,
  model_key TEXT NOT NULL,
  model_id TEXT NOT NULL,
  claimed INTEGER NOT NULL,
  verified INTEGER NOT NULL,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  PRIMARY KEY (site_id, model_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE model_change (
  id INTEGER PRIMARY KEY,
  site_id INTEGER NOT NULL REFERENCES site,
  at INTEGER NOT NULL,
  change TEXT NOT NULL,
  model_id TEXT NOT NULL
) STRICT;
CREATE INDEX model_change_site ON model_change (site_id, at);
CREATE TABLE region_state (
  site_id INTEGER NOT NULL REFERENCES site,
  region TEXT NOT NULL,
  state TEXT NOT NULL,
  blocking TEXT NOT NULL,
  vantages INTEGER NOT NULL,
  agreeing INTEGER NOT NULL,
  since INTEGER NOT NULL,
  checked_at INTEGER,
  pending_state TEXT,
  pending_count INTEGER NOT NULL,
  PRIMARY KEY (site_id, region)
) STRICT, WITHOUT ROWID;
CREATE TABLE incident (
  id INTEGER PRIMARY KEY,
  site_id INTEGER NOT NULL REFERENCES site,
  region TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  cause TEXT NOT NULL,
  vantages INTEGER NOT NULL,
  UNIQUE (site_id, region, started_at)
) STRICT;
CREATE TABLE board_day (
  day INTEGER NOT NULL,
  board TEXT NOT NULL,
  site_id INTEGER NOT NULL REFERENCES site,
  rank INTEGER NOT NULL,
  since INTEGER NOT NULL,
  reasons_json TEXT NOT NULL,
  PRIMARY KEY (day, board, site_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX board_day_site ON board_day (site_id);
CREATE TABLE detection (
  id TEXT PRIMARY KEY,
  target_key TEXT NOT NULL,
  url TEXT NOT NULL,
  status TEXT NOT NULL,
  version INTEGER NOT NULL,
  submitted_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  client_hash TEXT NOT NULL,
  result_json TEXT,
  error_code TEXT,
  requeues INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX detection_target ON detection (target_key, submitted_at);
CREATE INDEX detection_status ON detection (status, submitted_at);
CREATE TABLE screenshot (
  site_id INTEGER NOT NULL REFERENCES site,
  month TEXT NOT NULL,
  path TEXT,
  sha256 TEXT,
  width INTEGER,
  height INTEGER,
  taken_at INTEGER,
  error TEXT,
  PRIMARY KEY (site_id, month)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE, -- SHA-256 of the key; the key itself is shown once and not stored
  tier TEXT NOT NULL,
  note TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE roll_up_due (
  window_s INTEGER NOT NULL, -- 3600, 86400
  at INTEGER NOT NULL,
  touched INTEGER NOT NULL, -- grows when a bucket below changes, so a change in the middle of a roll-up is not missed
  PRIMARY KEY (window_s, at)
) STRICT, WITHOUT ROWID;
`

/** Of a connection that failed; what worked, and what was written before, has none (scoring/blocking.ts). */
const ADDRESS = 'ALTER TABLE probe_raw ADD COLUMN address TEXT;'

/** The newest counted probe of each region: a site is as well as its better region is. */
const NEWEST = `
CREATE TABLE newest_probe (
  site_id INTEGER NOT NULL REFERENCES site,
  region TEXT NOT NULL,
  at INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  PRIMARY KEY (site_id, region)
) STRICT, WITHOUT ROWID;
`

export const MIGRATIONS: readonly string[] = [FIRST, ADDRESS, NEWEST]

function bucketTable(name: string): string {
  return `CREATE TABLE ${name} (
  site_id INTEGER NOT NULL REFERENCES site,
  region TEXT NOT NULL, -- cn, overseas, or all: the better of the two
  at INTEGER NOT NULL, -- its start
  probes INTEGER NOT NULL,
  up INTEGER NOT NULL,
  degraded INTEGER NOT NULL,
  down INTEGER NOT NULL,
  hist BLOB NOT NULL,
  status_json TEXT NOT NULL,
  errors_json TEXT NOT NULL,
  PRIMARY KEY (site_id, region, at)
) STRICT, WITHOUT ROWID;`
}
