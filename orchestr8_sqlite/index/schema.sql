-- The index database of orchestr8-sqlite, schema version 6.0.
--
-- Made to be read: `sqlite3 index.db .schema` prints the tables with their comments, the views at the end answer the
-- common questions, and docs/schema.md shows both with examples. The rank_ tables serve the ranking alone.
-- Needs SQLite 3.37 or newer with FTS5. A build replaces the whole file; nothing ever changes it in place. A checksum
-- follows the last page, and the program does not answer from a file that fails it.
--
-- Version history
--   1.0  first schema
--   2.0  term, evidence, body_evidence, topic; synonyms with several words on the left
--   2.1  skill; skill_file holds the files of nested skills too
--   2.2  coverage of quick_lookup
--   3.0  packed evidence, terms by their stem; fragments numbered as they are read; pointer, author_id
--   4.0  sets of scenarios, and who holds longer keywords; keyword_part, scenario_order
--   4.1  view provenance, commits in meta; severities of findings
--   5.0  rows instead of packed lists: field_posting, rank_stem, rank_topic; the full text keeps no copy of the texts
--   5.1  terms of library_query
--   6.0  near_copy; norm of rank_length; review; views unreviewed and finding; diagnostic_by_file; root

PRAGMA application_id = 1865970545;  -- "o8sq" in ASCII
PRAGMA user_version = 60000;          -- major * 10000 + minor * 100 + patch

CREATE TABLE meta (  -- what an index says of itself
    key   TEXT PRIMARY KEY,  -- schema_version, built_by, generation, totals, build settings, commits of git checkouts
    value TEXT NOT NULL  -- as text
) STRICT, WITHOUT ROWID;

CREATE TABLE root (  -- the folders and the sources of orchestr8.toml that were read
    name      TEXT PRIMARY KEY,  -- as the other tables call it
    ordinal   INTEGER NOT NULL,  -- 0 for the first in reading order; of two files with one name, the first is kept
    owner     TEXT NOT NULL,     -- who answers for a source; empty for other folders
    namespace TEXT NOT NULL,     -- stands in the ids of its fragments: skills/acme/retry; empty for none
    location  TEXT NOT NULL,     -- address that a source was fetched from; empty for a folder
    version   TEXT NOT NULL,     -- tag, branch or commit that was asked for; empty for none
    content   TEXT NOT NULL      -- SHA-256 of the list of its files, as orchestr8.lock has it; empty for a folder
) STRICT, WITHOUT ROWID;

CREATE TABLE source (  -- every file of the library, read or not
    id       INTEGER PRIMARY KEY,  -- in reading order; files added later come last
    root     TEXT NOT NULL,     -- name of the root folder the file was read from
    path     TEXT NOT NULL,     -- below the root, with /
    outcome  TEXT NOT NULL CHECK (outcome IN  -- what became of the file
             ('fragment', 'prompt', 'skill_file', 'rejected', 'ignored')),
    mtime_ns INTEGER NOT NULL,  -- modification time, nanoseconds since 1970
    size     INTEGER NOT NULL,  -- bytes
    sha256   TEXT NOT NULL,     -- of the bytes; empty if the file could not be read
    UNIQUE (root, path)
) STRICT;

CREATE TABLE fragment (  -- one Markdown document; its long texts come last
    id             INTEGER PRIMARY KEY,  -- in reading order, new ones last; also the rowid of fragment_text
    category       TEXT NOT NULL CHECK (category IN  -- singular; URIs have the plural
                   ('agent', 'skill', 'example', 'pattern', 'guide', 'workflow', 'best-practice')),
    uri            TEXT NOT NULL UNIQUE,  -- orchestr8://skills/retry, percent-escaped where the name needs it
    name           TEXT NOT NULL,         -- last part of the id
    path           TEXT NOT NULL UNIQUE,  -- the id: URI without scheme, not escaped (skills/retry)
    size           INTEGER NOT NULL,      -- bytes of the body as served
    token_estimate INTEGER NOT NULL,      -- our estimate of its tokens
    author_tokens  INTEGER,               -- estimatedTokens of the front matter
    author_id      TEXT,                  -- id of the front matter; lookups go by path
    author_id_line INTEGER,               -- its line in the source file
    source_id      INTEGER NOT NULL REFERENCES source (id),  -- the file it was read from
    version        TEXT,  -- as the author wrote it
    title          TEXT NOT NULL,  -- front matter, else a heading, name or file
    description    TEXT NOT NULL,         -- may be empty
    metadata       TEXT NOT NULL CHECK (json_valid(metadata))  -- other front-matter fields
) STRICT;
CREATE INDEX fragment_by_category ON fragment (category, uri);
CREATE INDEX fragment_by_name ON fragment (name);
CREATE INDEX fragment_by_source ON fragment (source_id);
CREATE INDEX fragment_by_author_id ON fragment (author_id) WHERE author_id IS NOT NULL;

CREATE TABLE fragment_body (  -- the long text of each fragment
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- the fragment
    body        TEXT NOT NULL,  -- Markdown without front matter, \n line ends
    also        TEXT NOT NULL   -- words that FTS5 would not find in its texts: parts of camelCase, pairs of CJK signs
) STRICT;

CREATE TABLE tag (  -- the tags of each fragment
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment that has it
    tag         TEXT NOT NULL,     -- NFKC, casefolded
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    PRIMARY KEY (fragment_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_tag ON tag (tag);

CREATE TABLE capability (  -- what each fragment offers, line by line
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment that offers it
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    text        TEXT NOT NULL,  -- what it offers
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE scenario (  -- when each fragment is useful, line by line
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment
    ordinal     INTEGER NOT NULL,  -- 0 for the first line
    scenario_id TEXT NOT NULL,     -- unique: scenario- and hex digits of SHA-256 of "<path>:<text>"
    text        TEXT NOT NULL,     -- one useWhen line
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE keyword (  -- the words of all short texts
    id             INTEGER PRIMARY KEY,   -- number of the keyword
    text           TEXT NOT NULL UNIQUE,  -- a word of a short text: name, title, tag, capability, scenario, description
    stem           TEXT NOT NULL,         -- what its inflected forms share (Porter)
    scenario_count INTEGER NOT NULL DEFAULT 0,  -- scenarios that hold it
    fragment_count INTEGER NOT NULL DEFAULT 0   -- fragments that hold it in a short text
) STRICT;
CREATE INDEX keyword_by_stem ON keyword (stem);

CREATE TABLE posting (  -- which scenarios hold a keyword
    keyword_id  INTEGER NOT NULL REFERENCES keyword (id),  -- the keyword
    fragment_id INTEGER NOT NULL,  -- the fragment of a scenario that holds it
    ordinal     INTEGER NOT NULL,  -- the place of that scenario in the fragment
    PRIMARY KEY (keyword_id, fragment_id, ordinal),
    FOREIGN KEY (fragment_id, ordinal) REFERENCES scenario (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE field_posting (  -- which fragments hold a keyword, where, and what it weighs there
    keyword_id  INTEGER NOT NULL REFERENCES keyword (id),   -- the keyword
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- a fragment that holds it in a short text
    fields      INTEGER NOT NULL,  -- which: 1 tag + 2 capability + 4 scenario + 8 description + 16 title + 32 name
    weight      INTEGER NOT NULL,  -- thousandths of its rarity that the stem earns there; stored with the first
                                   -- keyword of the stem, 0 with the others
    PRIMARY KEY (keyword_id, fragment_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE near_copy (  -- fragments that say nearly the same; a group of them takes one place in an answer
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- a fragment that has near-copies
    first_id    INTEGER NOT NULL REFERENCES fragment (id)  -- names the group: the one of its fragments whose URI sorts first
) STRICT;
CREATE INDEX near_copy_by_first ON near_copy (first_id);

CREATE TABLE reference (  -- what each fragment points to, as its file writes it and as the library resolves it
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment that points
    ordinal     INTEGER NOT NULL,  -- 0 for the first in the file
    target      TEXT NOT NULL,     -- an id or a name; for a link the path of a file below the root, without .md
    target_id   INTEGER REFERENCES fragment (id),  -- NULL if the library has no such fragment
    dangles     INTEGER NOT NULL DEFAULT 0,  -- 1 if it should have; code is only an example, a link may lead to any file
    kind        TEXT NOT NULL CHECK (kind IN  -- how it is written; code: in a code block
                ('uri', 'related', 'link', 'fragment', 'code')),
    line        INTEGER NOT NULL,  -- in the source file
    PRIMARY KEY (fragment_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_by_target ON reference (target_id) WHERE target_id IS NOT NULL;

CREATE TABLE prompt (  -- templates that a client offers to its user
    id             INTEGER PRIMARY KEY,  -- in reading order, new ones last
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

CREATE TABLE prompt_argument (  -- what a prompt asks its user for
    prompt_id   INTEGER NOT NULL REFERENCES prompt (id),  -- the prompt
    ordinal     INTEGER NOT NULL,  -- 0 for the first
    name        TEXT NOT NULL,  -- as placeholders name it
    description TEXT NOT NULL,  -- may be empty
    required    INTEGER NOT NULL CHECK (required IN (0, 1)),  -- 1 if the prompt needs it
    PRIMARY KEY (prompt_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE skill (  -- Agent Skills that conform to the format, so that any client may be offered them
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- its SKILL.md as a fragment
    path        TEXT NOT NULL UNIQUE,  -- its folder in skill:// URIs, not escaped (acme/refunds)
    frontmatter TEXT NOT NULL CHECK (json_valid(frontmatter))  -- that of its SKILL.md, verbatim, in the author's order
) STRICT;

CREATE TABLE skill_file (  -- the files of each skill, SKILL.md included
    id          INTEGER PRIMARY KEY,  -- number of the file
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the skill
    path        TEXT NOT NULL,     -- below the skill's folder; SKILL.md is one, and so are the files of skills
                                   -- nested in it if the skill has a row in table skill
    size        INTEGER NOT NULL,  -- bytes
    sha256      TEXT NOT NULL,  -- of the bytes
    content     BLOB NOT NULL,     -- the raw bytes
    source_id   INTEGER NOT NULL REFERENCES source (id),  -- the file it was read from
    UNIQUE (fragment_id, path)
) STRICT;
CREATE INDEX skill_file_by_path ON skill_file (path, fragment_id) WHERE path = 'SKILL.md';  -- who is an Agent Skill

CREATE TABLE diagnostic (  -- what lint says of the library
    id       INTEGER PRIMARY KEY,  -- number of the diagnostic
    severity TEXT NOT NULL CHECK (severity IN  -- error: left out, warning: repaired, info: worth knowing;
                                              -- for a finding: high, medium, low
             ('error', 'warning', 'info')),
    code     TEXT NOT NULL,  -- kind of problem
    root     TEXT NOT NULL,  -- name of the root folder
    path     TEXT NOT NULL,  -- empty for a whole root
    line     INTEGER,  -- NULL if no line is at fault
    field    TEXT,  -- front-matter field
    message  TEXT NOT NULL,  -- what was found
    fix      TEXT NOT NULL   -- what to do
) STRICT;
CREATE INDEX diagnostic_by_file ON diagnostic (root, path, code);

CREATE TABLE review (  -- diagnostics that somebody has judged and accepted: the entries of reviews.toml
    root     TEXT NOT NULL,  -- name of the root folder; empty if no root that was read holds the file
    path     TEXT NOT NULL,  -- of the file below it; as written in the entry if the root is empty
    rule     TEXT NOT NULL,  -- the accepted kind of diagnostic, in the whole file
    sha256   TEXT NOT NULL,  -- of the bytes that were judged
    reason   TEXT NOT NULL,  -- why they are accepted
    reviewer TEXT NOT NULL,  -- who says so
    until    TEXT NOT NULL,  -- the last day on which the entry counts, as YYYY-MM-DD
    state    TEXT NOT NULL CHECK (state IN  -- when the index was built; only accepted ones count. changed: the file has
             ('accepted', 'expired', 'changed', 'unused')),  -- other bytes now; unused: it has no such diagnostic
    PRIMARY KEY (root, path, rule)
) STRICT, WITHOUT ROWID;

CREATE TABLE library_query (  -- requests that authors list for their own library
    id     INTEGER PRIMARY KEY,  -- number of the request
    text   TEXT NOT NULL,  -- as somebody would ask it; `eval --self` does
    origin TEXT NOT NULL,  -- queries (front matter) or queries.jsonl
    terms  TEXT NOT NULL  -- what an assistant would add to it, a JSON list
) STRICT;

CREATE TABLE library_answer (  -- which fragments answer these requests
    query_id    INTEGER NOT NULL REFERENCES library_query (id),  -- the request; without any answer it must be refused
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- a fragment that answers it, says its author
    PRIMARY KEY (query_id, fragment_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE quick_lookup (  -- answers computed by the build: most used keywords, and requests that authors list
    ranker      TEXT NOT NULL CHECK (ranker IN ('default', 'classic')),  -- whose scores they are
    query       TEXT NOT NULL,     -- normalised: keywords separated by spaces
    rank        INTEGER NOT NULL,  -- 1 for the best
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment of that rank
    score       REAL NOT NULL,     -- as a search prints it
    scenario    TEXT,              -- the best scenario
    total       INTEGER NOT NULL,  -- fragments that match, listed or not
    coverage    REAL NOT NULL,     -- how much of the query they cover, 0 to 1
    PRIMARY KEY (ranker, query, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE rank_stem (  -- how common a stem is
    stem           TEXT PRIMARY KEY,  -- of a keyword
    fragment_count INTEGER NOT NULL,  -- fragments that hold it anywhere, bodies included
    topic_count    INTEGER NOT NULL,  -- fragments that hold it in the name, the title or a tag
    topic_rarity   INTEGER NOT NULL   -- thousandths of ln((fragments + 0.5) / (topic_count + 0.5))
) STRICT, WITHOUT ROWID;

CREATE TABLE rank_topic (  -- what a fragment is about: the stems of its name, title and tags
    fragment_id INTEGER NOT NULL REFERENCES fragment (id),  -- the fragment
    stem        TEXT NOT NULL,     -- one of its stems
    share       INTEGER NOT NULL,  -- thousandths of the letters of the name; 0 if the name lacks it
    PRIMARY KEY (fragment_id, stem)
) STRICT, WITHOUT ROWID;

CREATE TABLE rank_length (  -- how long the short texts of a fragment are, in keywords
    fragment_id INTEGER PRIMARY KEY REFERENCES fragment (id),  -- the fragment
    name        INTEGER NOT NULL,  -- keywords of its name
    title       INTEGER NOT NULL,  -- of its title
    tag         INTEGER NOT NULL,  -- of all its tags
    capability  INTEGER NOT NULL,  -- of all its capabilities
    scenario    INTEGER NOT NULL,  -- of all its scenarios
    description INTEGER NOT NULL,  -- of its description
    norm        INTEGER NOT NULL   -- root of the sum of the squares of its weights in field_posting, at least 1000
) STRICT;

CREATE TABLE rank_synonym_word (  -- which words of a request have another name, or state a need
    stem       TEXT NOT NULL,     -- of a word in a request
    synonym_id INTEGER NOT NULL,  -- the synonym, numbered in the order of the files
    slot       INTEGER NOT NULL,  -- the slot that the word fills, 0 for the first
    slots      INTEGER NOT NULL,  -- slots of the synonym; a request must fill all of them
    PRIMARY KEY (stem, synonym_id, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE rank_synonym_form (  -- what a search looks for instead
    synonym_id INTEGER NOT NULL,  -- the synonym
    ordinal    INTEGER NOT NULL,  -- 0 for the most certain
    how        TEXT NOT NULL CHECK (how IN ('synonym', 'related')),  -- another name; what may meet the need
    stem       TEXT NOT NULL,  -- of what stands in for the words; the library may lack it
    PRIMARY KEY (synonym_id, ordinal)
) STRICT, WITHOUT ROWID;

-- What the full-text index reads of each fragment.
CREATE VIEW fragment_searched (id, name, title, tags, capabilities, scenarios, description, body, also) AS
SELECT f.id, f.name, f.title,
       (SELECT group_concat(tag, char(10)) FROM (SELECT tag FROM tag WHERE fragment_id = f.id ORDER BY ordinal)),
       (SELECT group_concat(text, char(10))
          FROM (SELECT text FROM capability WHERE fragment_id = f.id ORDER BY ordinal)),
       (SELECT group_concat(text, char(10))
          FROM (SELECT text FROM scenario WHERE fragment_id = f.id ORDER BY ordinal)),
       f.description, b.body, b.also
  FROM fragment f JOIN fragment_body b ON b.fragment_id = f.id;

-- Full text of each fragment, stemmed; rowid = fragment.id. Quote the words:
-- SELECT f.uri, snippet(fragment_text, -1, '[', ']', '…', 12)
--   FROM fragment_text JOIN fragment f ON f.id = fragment_text.rowid
--  WHERE fragment_text MATCH '"retry" OR "c++"' ORDER BY rank LIMIT 5;
CREATE VIRTUAL TABLE fragment_text USING fts5 (
    name, title, tags, capabilities, scenarios, description, body, also,
    content = 'fragment_searched', content_rowid = 'id',
    tokenize = "porter unicode61 remove_diacritics 2 tokenchars '+#'"
);

-- The stems of the full text: SELECT doc FROM fragment_vocabulary WHERE term = 'retri' counts fragments.
CREATE VIRTUAL TABLE fragment_vocabulary USING fts5vocab (fragment_text, row);

-- Keywords by any three letters in a row: WHERE keyword_text MATCH '"gres"' finds postgres and postgresql.
CREATE VIRTUAL TABLE keyword_text USING fts5 (
    text, content = 'keyword', content_rowid = 'id', tokenize = 'trigram', columnsize = 0
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

-- Where each file comes from; git_commit is that of the innermost git checkout around it, or of its source; NULL if
-- there is none.
CREATE VIEW provenance AS
SELECT f.uri, s.root, s.path, s.sha256,
       (SELECT folder.value FROM meta m, json_each(m.value) root, json_each(root.value) folder
         WHERE m.key = 'commits' AND root.key = s.root
           AND (folder.key = '' OR substr(s.path, 1, length(folder.key) + 1) = folder.key || '/')
         ORDER BY length(folder.key) DESC LIMIT 1) AS git_commit,
       r.owner, r.location
  FROM source s LEFT JOIN fragment f ON f.source_id = s.id LEFT JOIN root r ON r.name = s.root;

-- The diagnostics that no review accepts.
CREATE VIEW unreviewed AS
SELECT d.* FROM diagnostic d
 WHERE NOT EXISTS (SELECT 1 FROM review r
                    WHERE r.root = d.root AND r.path = d.path AND r.rule = d.code AND r.state = 'accepted');

-- What readers of a file should know before an assistant obeys it, and who has accepted that until when:
-- SELECT root, path, line, code, message FROM finding WHERE level = 'high' AND reviewer IS NULL;
CREATE VIEW finding AS
SELECT d.root, d.path, d.line,
       CASE d.severity WHEN 'error' THEN 'high' WHEN 'warning' THEN 'medium' ELSE 'low' END AS level,
       d.code, d.message, d.fix, r.reviewer, r.reason, r.until
  FROM diagnostic d
  LEFT JOIN review r ON r.root = d.root AND r.path = d.path AND r.rule = d.code AND r.state = 'accepted'
 WHERE d.code IN (
       'hidden-bidi', 'hidden-text', 'override-instructions', 'exfiltration', 'unsafe-download-run', 'encoded-code',
       'secret', 'comment-instructs', 'download-run', 'hide-from-user', 'encoded-text', 'invisible-character',
       'password-in-address', 'signed-token', 'html-comment', 'bidi-text', 'quoted-instructions', 'encoded-data');

-- A keyword with each scenario that holds it and the fragment the scenario belongs to.
CREATE VIEW keyword_detail AS
SELECT k.text AS keyword, k.stem, k.scenario_count, k.fragment_count, s.text AS scenario, f.uri
  FROM keyword k
  JOIN posting p ON p.keyword_id = k.id
  JOIN scenario s ON s.fragment_id = p.fragment_id AND s.ordinal = p.ordinal
  JOIN fragment f ON f.id = p.fragment_id;

-- Which fragments hold a keyword, in which fields; the weight is that of the stem, stored with its first keyword:
-- SELECT uri, sum(weight) FROM field_detail WHERE stem = 'retri' GROUP BY uri ORDER BY 2 DESC, 1;
CREATE VIEW field_detail AS
SELECT k.text AS keyword, k.stem, f.uri, f.category,
       trim(iif(p.fields & 32, 'name ', '') || iif(p.fields & 16, 'title ', '') || iif(p.fields & 1, 'tag ', '')
            || iif(p.fields & 2, 'capability ', '') || iif(p.fields & 4, 'scenario ', '')
            || iif(p.fields & 8, 'description ', '')) AS fields,
       p.weight
  FROM keyword k
  JOIN field_posting p ON p.keyword_id = k.id
  JOIN fragment f ON f.id = p.fragment_id;

-- The points that keywords earn in a scenario by the classic rules; name the keywords as literals or parameters:
-- SELECT uri, scenario, sum(points) FROM score_evidence WHERE keyword IN ('retry', 'backoff')
-- GROUP BY uri, scenario HAVING max(points) = 20 ORDER BY 3 DESC, 1;
CREATE VIEW score_evidence AS
SELECT q.text AS keyword, iif(k.id = q.id, 'exact', 'partial') AS how, min(k.text) AS matched,
       iif(k.id = q.id, 20, 10) AS points, s.text AS scenario, f.uri
  FROM keyword q
 CROSS JOIN keyword k ON instr(k.text, q.text) OR instr(q.text, k.text)
 CROSS JOIN posting p ON p.keyword_id = k.id
 CROSS JOIN scenario s ON s.fragment_id = p.fragment_id AND s.ordinal = p.ordinal
 CROSS JOIN fragment f ON f.id = p.fragment_id
 WHERE k.id = q.id
    OR NOT EXISTS (SELECT 1 FROM posting own
                    WHERE own.keyword_id = q.id AND own.fragment_id = p.fragment_id AND own.ordinal = p.ordinal)
 GROUP BY q.text, k.id = q.id, p.fragment_id, p.ordinal;  -- by the text, so that SQLite asks for the named ones only

-- Which fragment points to which, each target once; to_uri is NULL if the library lacks the target.
CREATE VIEW reference_detail AS
SELECT f.uri AS from_uri, t.uri AS to_uri, coalesce(t.path, r.target) AS target, r.kind, r.line,
       min(r.ordinal) AS ordinal
  FROM reference r
  JOIN fragment f ON f.id = r.fragment_id
  LEFT JOIN fragment t ON t.id = r.target_id
 WHERE r.dangles OR r.target_id <> r.fragment_id
 GROUP BY r.fragment_id, coalesce(t.path, r.target), t.id IS NULL;
