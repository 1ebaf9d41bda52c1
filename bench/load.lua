-- What wrk sends: LOAD_KIND says whether each search has other words; LOAD_SEED and LOAD_HOST go with it.
local words = {"retry", "async", "typescript", "security", "test", "review", "docker", "sql", "cache", "api", "python",
  "deploy", "queue", "schema", "login", "graph", "memory", "error", "index", "stream", "parse", "token", "cron", "log"}
math.randomseed(tonumber(os.getenv("LOAD_SEED")))
local headers = {["Content-Type"] = "application/json", ["Accept"] = "application/json, text/event-stream",
  ["Mcp-Protocol-Version"] = "2025-11-25", ["Host"] = os.getenv("LOAD_HOST")}
local function any() return words[math.random(#words)] end

local number = 0
request = function()
  number = number + 1
  local query = "retry a flaky call"
  if os.getenv("LOAD_KIND") == "different" then query = any() .. " " .. any() .. " " .. any() end
  return wrk.format("POST", "/mcp", headers, '{"jsonrpc":"2.0","id":' .. number .. ',"method":"tools/call",' ..
    '"params":{"name":"search","arguments":{"query":"' .. query .. '"}}}')
end

done = function(summary, latency, requests)
  local failed = summary.errors
  io.write(string.format('{"rate": %f, "p50": %f, "p99": %f, "requests": %d, "failed": %d}\n',
    summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    summary.requests, failed.connect + failed.read + failed.write + failed.status + failed.timeout))
end
