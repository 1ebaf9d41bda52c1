-- The index database of orchestr8-sqlite, schema version 4.1.
--
-- Made for people too: `sqlite3 index.db .schema` shows these comments, and the views at the end
-- answer the common questions. Works on SQLite >= 3.37 with FTS5. The file is written once and
-- replaced as a whole; it is never changed in place. Behind the last page of the database stands
-- the checksum of all before it: what differs from it is not answered from.
--
-- Version history
--   1.0  first schema
--   2.0  term, evidence, body_evidence, topic; synonyms with several words on the left
--   2.1  skill; skill_file holds the files of nested skills too
--   2.2  coverage of quick_lookup
--   3.0  packed evidence, terms by their stem; fragments numbered as they are read; pointer, author_id
--   4.0  sets of scenarios, and who holds longer keywords; keyword_part, scenario_order
--   4.1  view provenance, commits in meta; severities of findings

PRAGMA application_id = 1865970545;  -- "o8sq" in ASCII
PRAGMA user_version = 40100;          -- major * 10000 + minor * 100 + patch

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,  -- schema_version, built_by, generation, totals, build settings, commits of git checkouts
    value TEXT NOT NULL  -- as text
) STRICT, WITHOUT ROWID;

CREATE TABLE source (
    id       INTEGER PRIMARY KEY,  -- number of the file, in the order of reading, new ones last
    root     TEXT NOT NULL,     -- name of the root folder the file was read from
    path     TEXT NOT NULL,     -- relative to the root, with /
    outcome  TEXT NOT NULL CHECK (outcome IN  -- what became of the file
             ('fragment', 'prompt', 'skill_file', 'rejected', 'ignored')),
    mtime_ns INTEGER NOT NULL,  -- modification time, nanoseconds since 1970
    size     INTEGER NOT NULL,  -- bytes
    sha256   TEXT NOT NULL,     -- of the bytes; empty where the file could not be read
    UNIQUE (root, path)
) STRICT;

CREATE TABLE fragment (  -- long texts stand last
    id             INTEGER PRIMARY KEY,  -- in the order of reading, new ones last; also the rowid of fragment_text
    category       TEXT NOT NULL CHECK (category IN  -- singular; URIs have the plural
                   ('agent', 'skill', 'example', 'pattern', 'guide', 'workflow', 'best-practice')),
    uri            TEXT NOT NULL UNIQUE,  -- orchestr8://skills/retry, percent-escaped where the name needs it
    name           TEXT NOT NULL,         -- last part of the id
    path           TEXT NOT NULL UNIQUE,  -- the id: URI without scheme, not escaped (skills/retry)
    size           INTEGER NOT NULL,      -- bytes of the body as it is served
    token_estimate INTEGER NOT NULL,      -- tokens of the same
    author_tokens  INTEGER,               -- estimatedTokens of the front matter
    source_id      INTEGER NOT NULL REFERENCES source (id),  -- the file it was read from
    version        TEXT,  -- as the author wrote it
    title          TEXT NOT NULL,  -- front matter, else the first heading
    description    TEXT NOT NULL,         -- may be empty
    metadata       TEXT NOT NULL CHECK (json_valid(metadata))  -- other front-matter fields
) STRICT;
CREATE INDEX fragment_by_category ON fragment (category, uri);
CREATE INDEX fragment_by_name ON fragment (name);
CREATE INDEX fragment_by_source ON fragment (source_id);

CREATE TABLE author_id (
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- a fragment
    text        TEXT NOT NULL,  -- the id that its front matter gives, which nothing is found by
    line        INTEGER  -- where, in the source file
) STRICT;
CREATE INDEX author_id_by_text ON author_id (text);

CREATE TABLE fragment_body (
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- whose text it is
    body        TEXT NOT NULL  -- Markdown without front matter, \n line ends
) STRICT;

CREATE TABLE tag (
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- who carries it
    tag         TEXT NOT NULL,     -- NFKC, casefolded
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    PRIMARY KEY (fragment_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_tag ON tag (tag);

CREATE TABLE capability (
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- who gives it
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    text        TEXT NOT NULL,  -- what it gives
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE scenario (
    id          INTEGER PRIMARY KEY,  -- number of the scenario; postings use it
    scenario_id TEXT NOT NULL UNIQUE,  -- scenario- and hex digits of SHA-256 of "<path>:<text>"
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- whose scenario it is
    ordinal     INTEGER NOT NULL,  -- 0 for the first line
    text        TEXT NOT NULL,         -- one useWhen line
    UNIQUE (fragment_id, ordinal)
) STRICT;

CREATE TABLE keyword (
    id             INTEGER PRIMARY KEY,  -- number of the keyword, in the order that fragments hold them
    text           TEXT NOT NULL UNIQUE,  -- as keywords.py extracts it
    stem           TEXT NOT NULL,         -- what its inflected forms share
    scenario_count INTEGER NOT NULL,      -- scenarios that hold it
    fragment_count INTEGER NOT NULL,      -- fragments with it in a tag, capability or scenario
    prefix_id      INTEGER REFERENCES keyword (id)  -- the longest other keyword that it begins with
) STRICT;
CREATE INDEX keyword_by_stem ON keyword (stem);

CREATE TABLE keyword_suffix (
    suffix     TEXT NOT NULL,     -- every ending of a keyword: a range search here finds "contains"
    keyword_id INTEGER NOT NULL REFERENCES keyword (id),  -- the keyword that ends so
    PRIMARY KEY (suffix, keyword_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE posting (
    keyword_id  INTEGER NOT NULL REFERENCES keyword (id),  -- a keyword of the scenario
    scenario_id INTEGER NOT NULL REFERENCES scenario (id),  -- a scenario that holds it
    PRIMARY KEY (keyword_id, scenario_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE posting_block (  -- packed: what posting holds
    keyword_id INTEGER NOT NULL REFERENCES keyword (id),  -- a keyword
    block      INTEGER NOT NULL,  -- scenarios 524288 * block and up
    places     BLOB NOT NULL,  -- which bytes of the bits are not 0, two bytes each, the low one first; empty: all are kept
    bits       BLOB NOT NULL,  -- these bytes; a bit for each scenario, the lowest bit first: whether it holds the keyword
    PRIMARY KEY (keyword_id, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE containing_block (  -- who holds other keywords that contain one, packed alike
    keyword_id INTEGER NOT NULL REFERENCES keyword (id),  -- the contained keyword
    block      INTEGER NOT NULL,  -- scenarios 524288 * block and up
    places     BLOB NOT NULL,  -- as above
    bits       BLOB NOT NULL,  -- as above: whether the scenario holds any other keyword that contains it
    PRIMARY KEY (keyword_id, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE keyword_part (
    keyword_id INTEGER NOT NULL REFERENCES keyword (id),  -- a keyword
    part_id    INTEGER NOT NULL REFERENCES keyword (id),  -- another one that it contains
    PRIMARY KEY (keyword_id, part_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE scenario_owner (
    block  INTEGER PRIMARY KEY,  -- scenarios 2048 * block and up
    owners BLOB NOT NULL  -- the fragment of each, 0 for a free number; four bytes each, the low one first
) STRICT;

CREATE TABLE scenario_end (
    block INTEGER PRIMARY KEY,  -- scenarios 65536 * block and up
    ends  BLOB NOT NULL  -- a bit for each, the lowest bit first: the last one of its fragment
) STRICT;

CREATE TABLE fragment_place (
    block  INTEGER PRIMARY KEY,  -- fragments 2048 * block and up
    places BLOB NOT NULL  -- of each, its place in the order of the URIs; four bytes each, the low one first
) STRICT;

CREATE TABLE scenario_order (  -- where to look for the first scenarios in the order of the URIs
    place INTEGER NOT NULL,  -- the least place of a fragment that has scenarios of a block
    block INTEGER NOT NULL,  -- that block of scenario_owner
    PRIMARY KEY (place, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE field_block (  -- packed: see the view field_posting
    keyword_id INTEGER NOT NULL REFERENCES keyword (id),  -- a keyword
    block      INTEGER NOT NULL,  -- fragments 65536 * block and up
    fragments  BLOB NOT NULL,  -- which of these have it in any field but the body, two bytes each, the low one first
    fields     BLOB NOT NULL,  -- of each: 1 tag + 2 capability + 4 scenario + 8 description + 16 title + 32 name; a byte
    PRIMARY KEY (keyword_id, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE term (
    stem           TEXT PRIMARY KEY,  -- what the inflected forms of a word share
    fragment_count INTEGER NOT NULL,  -- fragments that hold it anywhere, the body included
    field_count    INTEGER NOT NULL,  -- fragments with it in any field but the body
    topic_count    INTEGER NOT NULL   -- fragments with it in name, title or tags
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence (  -- packed: see the view evidence_posting
    stem     TEXT NOT NULL REFERENCES term (stem),  -- a term
    block    INTEGER NOT NULL,  -- fragments 65536 * block and up
    members  BLOB NOT NULL,  -- which of these have it in a field but the body, two bytes each, the low one first
    weights  BLOB NOT NULL,  -- of each: thousandths of the rarity that it earns, its body included; two bytes
    fields   BLOB NOT NULL,  -- of each: 1 tag + 2 capability + 4 scenario + 8 description + 16 title + 32 name; a byte
    named    BLOB NOT NULL,  -- which have it in their name, as members
    shares   BLOB NOT NULL,  -- of each of these: thousandths of its name that the term is; two bytes
    PRIMARY KEY (stem, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE body_evidence (  -- packed: see the view body_posting
    stem     TEXT NOT NULL REFERENCES term (stem),  -- a term
    block    INTEGER NOT NULL,  -- as above
    members  BLOB NOT NULL,  -- which fragments have it in the body alone, as above
    counts   BLOB NOT NULL,  -- of each: how often, 255 for that often or more; a byte
    PRIMARY KEY (stem, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE byte (  -- reads packed blobs
    byte        BLOB PRIMARY KEY,  -- one
    value       INTEGER NOT NULL,  -- its number
    body_weight INTEGER NOT NULL   -- thousandths of the rarity that a term earns by standing in the body so often
) STRICT, WITHOUT ROWID;

CREATE TABLE topic (
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- a fragment
    stems       TEXT NOT NULL  -- those of its name, title and tags, separated by spaces
) STRICT;

CREATE TABLE synonym_word (
    stem       TEXT NOT NULL,     -- of a word in a request
    synonym_id INTEGER NOT NULL,  -- number of a synonym whose slot it meets, in the order of the files
    slot       INTEGER NOT NULL,  -- 0 for the first
    slots      INTEGER NOT NULL,  -- how many slots a request must meet: all of the synonym
    PRIMARY KEY (stem, synonym_id, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE synonym_form (
    synonym_id INTEGER NOT NULL,  -- the synonym
    ordinal    INTEGER NOT NULL,  -- 0 for the most certain
    how        TEXT NOT NULL CHECK (how IN ('synonym', 'related')),  -- another name, or what may meet the need
    stem       TEXT NOT NULL,  -- of what stands in for the words, whether the library knows it or not
    PRIMARY KEY (synonym_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE library_query (
    id     INTEGER PRIMARY KEY,  -- number of the request
    text   TEXT NOT NULL,  -- as somebody would ask; `eval --self` asks it
    origin TEXT NOT NULL  -- queries (front matter) or queries.jsonl
) STRICT;

CREATE TABLE library_answer (
    query_id    INTEGER NOT NULL REFERENCES library_query (id),  -- the request; one without answers must be refused
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- what its author says answers it
    PRIMARY KEY (query_id, fragment_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE quick_lookup (
    ranker      TEXT NOT NULL CHECK (ranker IN ('default', 'classic')),  -- whose scores these are
    query       TEXT NOT NULL,     -- normalised: keywords separated by spaces
    rank        INTEGER NOT NULL,  -- 1 for the best
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the answer of that rank
    score       REAL NOT NULL,  -- as a search prints it
    scenario_id INTEGER REFERENCES scenario (id),  -- the best scenario
    total       INTEGER NOT NULL,  -- fragments that match, listed here or not
    coverage    REAL NOT NULL,     -- how much of the query the answer covers, 0 to 1
    PRIMARY KEY (ranker, query, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE pointer (  -- what reference is made from: what a file names, whether the library has it or not
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- who points
    ordinal     INTEGER NOT NULL,  -- 0 for the first in the file
    target      TEXT NOT NULL,     -- an id or a name; of a link the path of a file below the root
    kind        TEXT NOT NULL,     -- as in reference
    line        INTEGER NOT NULL,  -- in the source file
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX pointer_by_target ON pointer (target);

CREATE TABLE reference (
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- who points
    ordinal     INTEGER NOT NULL,  -- 0 for the first in the file
    target      TEXT NOT NULL,     -- what it points to, as an id
    target_id   INTEGER REFERENCES fragment (id),  -- NULL where the library has no such fragment
    kind        TEXT NOT NULL CHECK (kind IN  -- how it is written; code: only in a code block
                ('uri', 'related', 'link', 'fragment', 'code')),
    line        INTEGER NOT NULL,  -- in the source file
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_by_target ON reference (target_id);

CREATE TABLE prompt (
    id             INTEGER PRIMARY KEY,  -- number of the prompt
    name           TEXT NOT NULL UNIQUE,  -- what a client calls it
    title          TEXT NOT NULL,  -- what a client shows
    description    TEXT NOT NULL,  -- may be empty
    version        TEXT,  -- as the author wrote it
    category       TEXT NOT NULL,  -- workflow, agent or skill, from the folder
    body           TEXT NOT NULL,     -- with its placeholders
    token_estimate INTEGER NOT NULL,  -- tokens of the body
    metadata       TEXT NOT NULL CHECK (json_valid(metadata)),  -- other front-matter fields
    source_id      INTEGER NOT NULL REFERENCES source (id)  -- the file it was read from
) STRICT;

CREATE TABLE prompt_argument (
    prompt_id   INTEGER NOT NULL REFERENCES prompt (id),  -- whose argument it is
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    name        TEXT NOT NULL,  -- as the placeholders name it
    description TEXT NOT NULL,  -- may be empty
    required    INTEGER NOT NULL CHECK (required IN (0, 1)),  -- 1 where the prompt needs it
    PRIMARY KEY (prompt_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE skill (  -- only those that conform to the Agent Skills format and may be offered to any client
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- its SKILL.md as a fragment
    path        TEXT NOT NULL UNIQUE,  -- of its folder in skill:// URIs, not escaped (acme/refunds)
    frontmatter TEXT NOT NULL CHECK (json_valid(frontmatter))  -- of its SKILL.md, verbatim, in the author's order
) STRICT;

CREATE TABLE skill_file (
    id          INTEGER PRIMARY KEY,  -- number of the file
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the skill
    path        TEXT NOT NULL,     -- relative to the skill's folder; SKILL.md itself is one, and where the skill
                                   -- is in table skill those of the skills nested in it are too
    size        INTEGER NOT NULL,  -- bytes
    sha256      TEXT NOT NULL,  -- of the bytes
    content     BLOB NOT NULL,     -- the raw bytes
    source_id   INTEGER NOT NULL REFERENCES source (id),  -- the file it was read from
    UNIQUE (fragment_id, path)
) STRICT;

CREATE TABLE diagnostic (
    id       INTEGER PRIMARY KEY,  -- number of the diagnostic
    severity TEXT NOT NULL CHECK (severity IN  -- error: left out, warning: repaired, info: no fault;
                                              -- of a finding its level: high, medium, low
             ('error', 'warning', 'info')),
    code     TEXT NOT NULL,  -- kind of problem
    root     TEXT NOT NULL,  -- name of the root folder
    path     TEXT NOT NULL,  -- empty for a whole root
    line     INTEGER,  -- NULL where no line is to blame
    field    TEXT,  -- front-matter field
    message  TEXT NOT NULL,  -- what was found
    fix      TEXT NOT NULL   -- what to do
) STRICT;

CREATE INDEX skill_file_by_path ON skill_file (path, fragment_id) WHERE path = 'SKILL.md';  -- who is an Agent Skill

-- Full text of each fragment, stemmed; rowid = fragment.id, stores no copy of the text.
-- Query it with quoted words: SELECT rowid FROM fragment_text WHERE fragment_text MATCH '"retry" OR "c++"'.
CREATE VIRTUAL TABLE fragment_text USING fts5 (
    name, title, tags, capabilities, scenarios, description, body,
    content = '', tokenize = "porter unicode61 remove_diacritics 2 tokenchars '+#'"
);

-- A fragment with its lists.
CREATE VIEW fragment_detail AS
SELECT f.uri, f.category, f.title, f.description,
       (SELECT group_concat(tag, ', ') FROM (SELECT tag FROM tag WHERE fragment_id = f.id ORDER BY ordinal)) AS tags,
       (SELECT group_concat(text, '; ')
          FROM (SELECT text FROM capability WHERE fragment_id = f.id ORDER BY ordinal)) AS capabilities,
       (SELECT group_concat(text, '; ')
          FROM (SELECT text FROM scenario WHERE fragment_id = f.id ORDER BY ordinal)) AS scenarios,
       f.token_estimate, f.author_tokens, s.root || '/' || s.path AS source, s.sha256
  FROM fragment f JOIN source s ON s.id = f.source_id;

-- Where each file comes from: the commit is that of the innermost git checkout that it lies in, where there is one.
CREATE VIEW provenance AS
SELECT f.uri, s.root, s.path, s.sha256,
       (SELECT folder.value FROM meta m, json_each(m.value) root, json_each(root.value) folder
         WHERE m.key = 'commits' AND root.key = s.root
           AND (folder.key = '' OR substr(s.path, 1, length(folder.key) + 1) = folder.key || '/')
         ORDER BY length(folder.key) DESC LIMIT 1) AS git_commit
  FROM source s LEFT JOIN fragment f ON f.source_id = s.id;

-- A keyword with each scenario that holds it and the fragment the scenario belongs to.
CREATE VIEW keyword_detail AS
SELECT k.text AS keyword, k.scenario_count, k.fragment_count, s.text AS scenario, f.uri
  FROM keyword k
  JOIN posting p ON p.keyword_id = k.id
  JOIN scenario s ON s.id = p.scenario_id
  JOIN fragment f ON f.id = s.fragment_id;

-- Who holds a keyword in which fields: the rows that field_block packs.
CREATE VIEW field_posting AS
WITH
digit (value, hex) AS (SELECT key, value FROM json_each('["0","1","2","3","4","5","6","7","8","9","A","B","C","D","E","F"]')),
octet (value, hex) AS MATERIALIZED (
    SELECT 16 * high.value + low.value, high.hex || low.hex FROM digit high JOIN digit low)
SELECT b.keyword_id, 65536 * b.block + 256 * high.value + low.value AS fragment_id, field.value AS fields
  FROM field_block b
  CROSS JOIN json_each('[' || rtrim(replace(hex(zeroblob(length(b.fields))), '00', '0,'), ',') || ']') place
  JOIN octet low ON low.hex = hex(substr(b.fragments, 2 * place.key + 1, 1))
  JOIN octet high ON high.hex = hex(substr(b.fragments, 2 * place.key + 2, 1))
  JOIN octet field ON field.hex = hex(substr(b.fields, place.key + 1, 1));

-- The points that a query keyword of the vocabulary earns in a scenario by the classic rules:
-- SELECT uri, scenario, sum(points) FROM score_evidence WHERE keyword IN ('retry', 'backoff')
-- GROUP BY uri, scenario HAVING max(points) = 20 ORDER BY 3 DESC, 1;
CREATE VIEW score_evidence AS
SELECT k.text AS keyword, 'exact' AS how, k.text AS matched, 20 AS points, s.text AS scenario, f.uri
  FROM keyword k
  JOIN posting p ON p.keyword_id = k.id
  JOIN scenario s ON s.id = p.scenario_id
  JOIN fragment f ON f.id = s.fragment_id
UNION ALL
SELECT k.text, 'partial', min(other.text), 10, s.text, f.uri
  FROM keyword k
  JOIN keyword other ON other.id <> k.id
   AND (other.id IN (SELECT keyword_id FROM keyword_suffix
                      WHERE suffix >= k.text AND suffix < k.text || char(1114111))
        OR k.id IN (SELECT keyword_id FROM keyword_suffix
                     WHERE suffix >= other.text AND suffix < other.text || char(1114111)))
  JOIN posting p ON p.keyword_id = other.id
  JOIN scenario s ON s.id = p.scenario_id
  JOIN fragment f ON f.id = s.fragment_id
 WHERE NOT EXISTS (SELECT 1 FROM posting WHERE keyword_id = k.id AND scenario_id = s.id)
 GROUP BY k.id, s.id;

-- Who holds a term in which fields: the rows that evidence packs.
CREATE VIEW evidence_posting AS
SELECT p.stem, 65536 * p.block + 256 * high.value + low.value AS fragment_id, field.value AS fields,
       256 * heavy.value + light.value AS weight
  FROM evidence p
  CROSS JOIN json_each('[' || rtrim(replace(hex(zeroblob(length(p.fields))), '00', '0,'), ',') || ']') place
  JOIN byte low ON low.byte = substr(p.members, 2 * place.key + 1, 1)
  JOIN byte high ON high.byte = substr(p.members, 2 * place.key + 2, 1)
  JOIN byte light ON light.byte = substr(p.weights, 2 * place.key + 1, 1)
  JOIN byte heavy ON heavy.byte = substr(p.weights, 2 * place.key + 2, 1)
  JOIN byte field ON field.byte = substr(p.fields, place.key + 1, 1);

-- What share of its name a term is, in thousandths: the rest of evidence.
CREATE VIEW name_posting AS
SELECT p.stem, 65536 * p.block + 256 * high.value + low.value AS fragment_id,
       256 * large.value + small.value AS share
  FROM evidence p
  CROSS JOIN json_each('[' || rtrim(replace(hex(zeroblob(length(p.named) / 2)), '00', '0,'), ',') || ']') place
  JOIN byte low ON low.byte = substr(p.named, 2 * place.key + 1, 1)
  JOIN byte high ON high.byte = substr(p.named, 2 * place.key + 2, 1)
  JOIN byte small ON small.byte = substr(p.shares, 2 * place.key + 1, 1)
  JOIN byte large ON large.byte = substr(p.shares, 2 * place.key + 2, 1);

-- Who holds a term in the body alone, how often, and what that earns: the rows that body_evidence packs.
CREATE VIEW body_posting AS
SELECT p.stem, 65536 * p.block + 256 * high.value + low.value AS fragment_id,
       count.value AS count, count.body_weight AS weight
  FROM body_evidence p
  CROSS JOIN json_each('[' || rtrim(replace(hex(zeroblob(length(p.counts))), '00', '0,'), ',') || ']') place
  JOIN byte low ON low.byte = substr(p.members, 2 * place.key + 1, 1)
  JOIN byte high ON high.byte = substr(p.members, 2 * place.key + 2, 1)
  JOIN byte count ON count.byte = substr(p.counts, place.key + 1, 1);

-- What each term earns in each fragment by the default ranker, before expansions and the share of the name:
-- SELECT uri, sum(points) FROM evidence_detail WHERE stem IN ('retri', 'backoff') GROUP BY uri ORDER BY 2 DESC, 1;
-- Needs SQLite's mathematical functions, which the sqlite3 shell has.
CREATE VIEW evidence_detail AS
WITH
size (n) AS (SELECT CAST(value AS REAL) FROM meta WHERE key = 'fragments'),
rare (stem, rarity, in_bodies) AS (  -- bodies are not searched for what more than a quarter of all fragments hold
    SELECT stem, ln(1 + ((SELECT n FROM size) - fragment_count + 0.5) / (fragment_count + 0.5)),
           fragment_count <= 0.25 * (SELECT n FROM size)
      FROM term)
SELECT r.stem, r.rarity, f.uri, f.category,
       trim(iif(e.fields & 32, 'name ', '') || iif(e.fields & 16, 'title ', '') || iif(e.fields & 1, 'tag ', '')
            || iif(e.fields & 2, 'capability ', '') || iif(e.fields & 4, 'scenario ', '')
            || iif(e.fields & 8, 'description ', '')) AS fields,
       e.weight / 1000.0 AS weight, r.rarity * e.weight / 1000.0 AS points
  FROM rare r JOIN evidence_posting e ON e.stem = r.stem JOIN fragment f ON f.id = e.fragment_id
UNION ALL
SELECT r.stem, r.rarity, f.uri, f.category, 'body', b.weight / 1000.0, r.rarity * b.weight / 1000.0
  FROM rare r JOIN body_posting b ON b.stem = r.stem JOIN fragment f ON f.id = b.fragment_id
 WHERE r.in_bodies;

-- Which fragment points to which; to_uri is NULL where the target does not exist.
CREATE VIEW reference_detail AS
SELECT f.uri AS from_uri, t.uri AS to_uri, r.target, r.kind, r.line
  FROM reference r
  JOIN fragment f ON f.id = r.fragment_id
  LEFT JOIN fragment t ON t.id = r.target_id;
