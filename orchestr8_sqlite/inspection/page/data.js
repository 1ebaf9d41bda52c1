// The data: unpacked once, then indexed by what the views ask for. inspection/data.py describes its shape.

const ASK_AGAIN = 700; // milliseconds between two requests for data that a server is still collecting

/** Return the data of the page, which stands in it as base64 of gzip of packed JSON; a served page asks for it. */
async function readData() {
  const holder = document.getElementById("data");
  const text = holder.textContent.trim();
  if (!text) return fetchData("inspect/data");
  holder.remove();
  const unpacked = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return indexed(unpack(await new Response(unpacked).json()));
}

/** Return the data that the server has, once it has them; `isServed` marks them. */
async function fetchData(from) {
  for (;;) {
    const answer = await fetch(from);
    if (!answer.ok) throw new Error(await answer.text());
    if (answer.status !== 202) return { ...indexed(unpack(await answer.json())), isServed: true };
    await new Promise((done) => setTimeout(done, ASK_AGAIN));
  }
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

/** Return the data with what each fragment has to do with the rest beside it, in lists by the fragment's place. */
function indexed(data) {
  const lists = () => data.fragments.map(() => []);
  const at = {
    asked: lists(),
    pointed: lists(),
    points: lists(),
    dangling: lists(),
    findings: lists(),
    pairs: lists(),
  };
  data.requests.forEach((request, place) => {
    request.place = place;
    request.outcome = outcomeOf(request);
    request.sought = `${request.text} ${request.terms.join(" ")}`.toLowerCase();
    for (const id of request.expected) at.asked[id].push(request);
  });
  for (const edge of data.edges) (at.points[edge[0]].push(edge), at.pointed[edge[1]].push(edge));
  for (const one of data.dangling) at.dangling[one[0]].push(one);
  for (const finding of data.findings) if (finding.fragment != null) at.findings[finding.fragment].push(finding);
  data.pairs.forEach((pair, place) => {
    pair.place = place;
    (at.pairs[pair.first].push(pair), at.pairs[pair.later].push(pair));
  });
  data.fragments.forEach((fragment, place) => {
    fragment.place = place;
    fragment.sought = [fragment.path, fragment.title, fragment.description, ...fragment.tags].join(" ").toLowerCase();
  });
  data.byPath = new Map(data.fragments.map((fragment) => [fragment.path, fragment]));
  data.byUri = new Map(data.fragments.map((fragment) => [fragment.uri, fragment]));
  return { ...data, at };
}

const LIVE = "live"; // the origin of a request that was typed here

const OUTCOMES = {
  first: "found first",
  lower: "found lower",
  lost: "not in the answer",
  refused: "refused, though it should be found",
  unfit: "refused, as it should be",
  wrong: "answered, though nothing fits",
  answered: "answered",
  nothing: "nothing fits",
};

function outcomeOf(request) {
  if (request.origin === LIVE) return request.confident && request.answers.length ? "answered" : "nothing";
  if (!request.expected.length) return request.is_met ? "unfit" : "wrong";
  if (request.is_met) return "first";
  if (!request.confident) return "refused";
  return request.rank ? "lower" : "lost";
}

/** Tell whether a text has all words of what was typed, in any order. */
function matcher(typed) {
  const words = (typed || "").toLowerCase().split(/\s+/).filter(Boolean);
  return (item) => words.every((word) => item.sought.includes(word));
}
