-- Questions to an index, as `export --format datasette` stores them for Datasette; they run in any SQLite tool.
--
-- Above each statement: its name and its title, what it shows, and what finds an example for each of its parameters.

-- search: Search the full text
-- Fragments with all of the words, in any form, anywhere in their texts, best first, and the passage that fits.
-- words = SELECT text FROM keyword ORDER BY fragment_count DESC, text LIMIT 1
SELECT f.uri, highlight(fragment_text, 1, '[', ']') AS title, snippet(fragment_text, 6, '[', ']', '…', 24) AS found,
       f.token_estimate AS tokens
  FROM fragment_text JOIN fragment f ON f.id = fragment_text.rowid
 WHERE fragment_text MATCH '"' || replace(replace(trim(:words), '"', ''), ' ', '" "') || '"'
 ORDER BY rank LIMIT 100;

-- read: Read a fragment
-- All that a fragment says, what it points to, what points to it, and the problems of its file. Give its URI, its id or
-- its name.
-- fragment = SELECT min(path) FROM fragment
SELECT part.key AS part, part.value AS text
  FROM fragment f
  JOIN fragment_searched t ON t.id = f.id
  JOIN source s ON s.id = f.source_id,
       json_each(json_object(
         'uri', f.uri, 'title', f.title, 'category', f.category, 'description', f.description, 'tags', t.tags,
         'scenarios', t.scenarios, 'capabilities', t.capabilities, 'tokens', f.token_estimate,
         'file', s.root || '/' || s.path, 'front matter', f.metadata,
         'points to', (SELECT group_concat(coalesce(to_uri, target), char(10))
                         FROM reference_detail WHERE from_uri = f.uri),
         'is pointed to by', (SELECT group_concat(from_uri, char(10)) FROM reference_detail WHERE to_uri = f.uri),
         'problems', (SELECT group_concat(severity || coalesce(' in line ' || line, '') || ': ' || message, char(10))
                        FROM unreviewed u WHERE u.root = s.root AND u.path = s.path),
         'text', t.body)) part
 WHERE :fragment IN (f.uri, f.path, f.name) AND part.value NOT IN ('', '{}');

-- tags: The most used tags
-- Each tag with the fragments that have it and the tokens of all their texts.
SELECT t.tag, count(*) AS fragments, sum(f.token_estimate) AS tokens
  FROM tag t JOIN fragment f ON f.id = t.fragment_id
 GROUP BY t.tag ORDER BY fragments DESC, t.tag;

-- categories: Fragments and tokens by category
-- What each category of each root holds, and its largest fragment.
SELECT s.root, f.category, count(*) AS fragments, sum(f.token_estimate) AS tokens,
       round(avg(f.token_estimate)) AS average, max(f.token_estimate) AS largest, f.uri
  FROM fragment f JOIN source s ON s.id = f.source_id
 GROUP BY s.root, f.category ORDER BY tokens DESC;

-- largest: The largest fragments
-- Texts that take the most tokens of a context.
SELECT uri, title, token_estimate AS tokens, size AS bytes FROM fragment
 ORDER BY token_estimate DESC, uri LIMIT 100;

-- author-tokens: Token counts of authors that are off
-- Fragments whose estimatedTokens differ from our estimate by more than so many percent, the worst first.
-- percent = SELECT 50
SELECT uri, author_tokens, token_estimate AS tokens,
       round(100.0 * (author_tokens - token_estimate) / max(token_estimate, 1)) AS percent_off
  FROM fragment
 WHERE abs(100.0 * (author_tokens - token_estimate) / max(token_estimate, 1)) > CAST(:percent AS REAL)
 ORDER BY abs(author_tokens - token_estimate) * 1.0 / max(token_estimate, 1) DESC, uri;

-- incomplete: Fragments that lack something
-- Without a description, tags, scenarios or capabilities a fragment is harder to find.
SELECT uri,
       trim(iif(has_description, '', 'description ') || iif(tags, '', 'tags ') || iif(scenarios, '', 'scenarios ')
            || iif(capabilities, '', 'capabilities')) AS lacks
  FROM (SELECT f.uri, f.description <> '' AS has_description,
               EXISTS (SELECT 1 FROM tag WHERE fragment_id = f.id) AS tags,
               EXISTS (SELECT 1 FROM scenario WHERE fragment_id = f.id) AS scenarios,
               EXISTS (SELECT 1 FROM capability WHERE fragment_id = f.id) AS capabilities
          FROM fragment f)
 WHERE NOT (has_description AND tags AND scenarios AND capabilities)
 ORDER BY has_description + tags + scenarios + capabilities, uri;

-- vague-scenarios: Scenarios without a telling word
-- Scenarios whose rarest keyword the most fragments have: a search for them meets much else.
SELECT f.uri, s.text AS scenario, r.fragments AS fragments_with_its_rarest_keyword
  FROM (SELECT p.fragment_id, p.ordinal, min(k.fragment_count) AS fragments
          FROM posting p JOIN keyword k ON k.id = p.keyword_id GROUP BY p.fragment_id, p.ordinal) r
  JOIN scenario s ON s.fragment_id = r.fragment_id AND s.ordinal = r.ordinal
  JOIN fragment f ON f.id = s.fragment_id
 ORDER BY r.fragments DESC, f.uri, s.ordinal LIMIT 100;

-- same-scenarios: Scenarios that fragments share
-- Fragments with a common line cannot be told apart by a search for it.
SELECT s.text AS scenario, count(*) AS fragments, group_concat(f.uri, char(10)) AS uris
  FROM scenario s JOIN fragment f ON f.id = s.fragment_id
 GROUP BY s.text HAVING count(DISTINCT f.id) > 1 ORDER BY fragments DESC, s.text;

-- same-titles: Titles that fragments share
-- A client that lists titles shows these fragments alike.
SELECT title, count(*) AS fragments, group_concat(uri, char(10)) AS uris
  FROM fragment GROUP BY title HAVING count(*) > 1 ORDER BY fragments DESC, title;

-- same-texts: Fragments with the same text
-- Fragments whose text is the same to the letter, whatever their front matter says.
SELECT count(*) AS fragments, f.token_estimate AS tokens, group_concat(f.uri, char(10)) AS uris
  FROM fragment f JOIN fragment_body b ON b.fragment_id = f.id
 WHERE f.size IN (SELECT size FROM fragment GROUP BY size HAVING count(*) > 1)
 GROUP BY f.size, b.body HAVING count(*) > 1 ORDER BY fragments DESC, uris;

-- near-copies: Fragments that say nearly the same
-- Groups of near-copies; each takes one place in an answer.
SELECT count(*) AS fragments, min(f.token_estimate) AS least_tokens, max(f.token_estimate) AS most_tokens,
       group_concat(f.uri, char(10)) AS uris
  FROM near_copy n JOIN fragment f ON f.id = n.fragment_id
 GROUP BY n.first_id ORDER BY fragments DESC, uris;

-- hubs: The fragments that others point to most
-- How many fragments point to each, and how many it points to.
SELECT to_uri AS uri, count(DISTINCT from_uri) AS pointed_to_by,
       (SELECT count(DISTINCT r.target_id) FROM reference r JOIN fragment f ON f.id = r.fragment_id
         WHERE f.uri = d.to_uri AND r.target_id <> r.fragment_id) AS points_to
  FROM reference_detail d WHERE to_uri IS NOT NULL
 GROUP BY to_uri ORDER BY pointed_to_by DESC, to_uri;

-- orphans: Fragments that no other points to
-- They are found by a search only; points_to is how many fragments each names itself.
SELECT f.uri, f.title, (SELECT count(DISTINCT r.target_id) FROM reference r
                         WHERE r.fragment_id = f.id AND r.target_id <> f.id) AS points_to
  FROM fragment f
 WHERE NOT EXISTS (SELECT 1 FROM reference r WHERE r.target_id = f.id AND r.fragment_id <> f.id)
 ORDER BY f.uri;

-- dead-links: Links to nothing
-- What fragments point to and the library lacks, the most wanted first, with each place and its line.
SELECT target, count(*) AS count, group_concat(from_uri || ':' || line, char(10)) AS links
  FROM reference_detail WHERE to_uri IS NULL
 GROUP BY target ORDER BY count DESC, target;

-- neighbours: The neighbours of a fragment
-- What a fragment points to, and what points to it. Give its URI, its id or its name.
-- fragment = SELECT max(to_uri) FROM reference_detail
SELECT f.uri AS fragment, 'points to' AS direction, coalesce(d.to_uri, d.target) AS uri, d.kind, d.line
  FROM fragment f JOIN reference_detail d ON d.from_uri = f.uri
 WHERE :fragment IN (f.uri, f.path, f.name)
 UNION ALL
SELECT f.uri, 'is pointed to by', d.from_uri, d.kind, d.line
  FROM fragment f JOIN reference_detail d ON d.to_uri = f.uri
 WHERE :fragment IN (f.uri, f.path, f.name)
 ORDER BY 1, 2, 3;

-- coverage: Which words the library covers
-- For each word: the scenarios and fragments that hold it, and those with a form of it anywhere. Those that nothing
-- covers come first. Paste what users asked for in vain.
-- words = SELECT group_concat(text, ' ') FROM (SELECT text FROM keyword ORDER BY fragment_count DESC, text LIMIT 3)
SELECT word, coalesce(k.scenario_count, 0) AS scenarios, coalesce(k.fragment_count, 0) AS fragments,
       (SELECT count(*) FROM fragment_text WHERE fragment_text MATCH '"' || word || '"') AS anywhere
  FROM (SELECT DISTINCT value AS word
          FROM json_each('[' || replace(json_quote(lower(replace(trim(:words), '"', ''))), ' ', '","') || ']')
         WHERE value <> '')
  LEFT JOIN keyword k ON k.text = word
 ORDER BY anywhere, fragments, scenarios, word;

-- compare: What two fragments earn for a request
-- For each word of the request, where the two fragments hold it or a form of it, and what it weighs there. Give URIs,
-- ids or names. orchestr8-sqlite explain shows the rest of a score: name, body, other names.
-- words = SELECT name FROM fragment ORDER BY path LIMIT 1
-- one = SELECT min(path) FROM fragment
-- other = SELECT max(path) FROM fragment
WITH word AS (
    SELECT DISTINCT k.stem
      FROM json_each('[' || replace(json_quote(lower(replace(trim(:words), '"', ''))), ' ', '","') || ']')
      JOIN keyword k ON k.text = value
)
SELECT d.uri, d.stem, group_concat(d.keyword || ': ' || d.fields, char(10)) AS held, sum(d.weight) AS weight
  FROM word
  JOIN field_detail d ON d.stem = word.stem
 WHERE d.uri IN (SELECT uri FROM fragment WHERE :one IN (uri, path, name) OR :other IN (uri, path, name))
 GROUP BY d.uri, d.stem ORDER BY d.stem, weight DESC, d.uri;

-- other-names: What a word also stands for
-- Other names that a search looks for besides the word, and what may meet the need that it states, all as stems. Most
-- needs take more than one word: the request must also have one of each group that stands between the + signs.
-- word = SELECT min(text) FROM keyword WHERE stem IN (SELECT stem FROM rank_synonym_word WHERE slots = 1)
WITH meant AS (
    SELECT DISTINCT synonym_id, slot FROM rank_synonym_word
     WHERE stem = lower(trim(:word)) OR stem = (SELECT stem FROM keyword WHERE text = lower(trim(:word)))
), other_slot AS (
    SELECT synonym_id, group_concat(stem, ' ') AS stems
      FROM rank_synonym_word
     WHERE synonym_id IN (SELECT synonym_id FROM meant) AND (synonym_id, slot) NOT IN (SELECT * FROM meant)
     GROUP BY synonym_id, slot
), needed AS (
    SELECT synonym_id, group_concat(stems, ' + ') AS with_one_of FROM other_slot GROUP BY synonym_id
)
SELECT f.how, group_concat(f.stem, ' ') AS looked_for, coalesce(n.with_one_of, '') AS with_one_of
  FROM rank_synonym_form f LEFT JOIN needed n ON n.synonym_id = f.synonym_id
 WHERE f.synonym_id IN (SELECT synonym_id FROM meant)
 GROUP BY f.synonym_id, f.how ORDER BY f.how DESC, n.with_one_of NOTNULL, looked_for, f.synonym_id;

-- front-matter: Front-matter fields in use
-- Fields without a column of their own, how many fragments have each, and a value.
SELECT field.key AS field, count(*) AS fragments, count(DISTINCT field.value) AS different_values,
       min(substr(field.value, 1, 100)) AS example
  FROM fragment f, json_each(f.metadata) field
 GROUP BY field.key ORDER BY fragments DESC, field.key;

-- front-matter-value: Fragments by a front-matter field
-- Fragments whose field holds the text, or has any value: allowed-tools with Bash finds the skills that may run commands.
-- field = SELECT min(key) FROM fragment, json_each(metadata)
-- holds = SELECT ''
SELECT f.uri, field.key AS field, field.value
  FROM fragment f, json_each(f.metadata) field
 WHERE field.key = :field AND instr(lower(field.value), lower(:holds)) > 0 ORDER BY f.uri;

-- oldest: The files that changed longest ago
-- Times are those of the files: a fresh clone gives all files its own. The commit is that of their git checkout.
SELECT p.uri, s.root || '/' || s.path AS file, datetime(s.mtime_ns / 1000000000, 'unixepoch') AS changed, p.git_commit
  FROM source s JOIN provenance p ON p.root = s.root AND p.path = s.path
 ORDER BY s.mtime_ns, file LIMIT 100;

-- problems: Files by their problems
-- How many problems of each severity each file has, without those that a review accepts.
SELECT u.root || '/' || u.path AS file, p.uri, sum(severity = 'error') AS errors, sum(severity = 'warning') AS warnings,
       sum(severity = 'info') AS notes, group_concat(DISTINCT code) AS kinds
  FROM unreviewed u LEFT JOIN provenance p ON p.root = u.root AND p.path = u.path
 GROUP BY u.root, u.path ORDER BY errors DESC, warnings DESC, notes DESC, file;

-- kinds-of-problems: Problems by kind
-- How often each kind of problem occurs, in how many files, and one of them.
SELECT severity, code, count(*) AS problems, count(DISTINCT root || '/' || path) AS files, min(message) AS example, fix
  FROM unreviewed GROUP BY severity, code ORDER BY problems DESC, code;

-- left-out: Files that were left out
-- Files without a place in the index, and why.
SELECT s.root || '/' || s.path AS file, s.outcome, s.size AS bytes, d.code, d.message, d.fix
  FROM source s LEFT JOIN diagnostic d ON d.root = s.root AND d.path = s.path
 WHERE s.outcome IN ('rejected', 'ignored') ORDER BY file, d.id;

-- findings: What nobody has judged yet
-- Findings that a reader should see before an assistant obeys the file, without those that a review accepts.
SELECT f.level, f.code, f.root || '/' || f.path AS file, f.line, p.uri, f.message, f.fix
  FROM finding f LEFT JOIN provenance p ON p.root = f.root AND p.path = f.path
 WHERE f.reviewer IS NULL
 ORDER BY instr('high medium low', f.level), f.code, file, f.line;
