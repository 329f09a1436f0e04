// The behaviour that programs written against node-postgres expect: types, arrays, named
// statements, cursors, COPY out, a pool, errors that leave the connection usable. Run with the
// server's port.

const assert = require("node:assert");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const { to: copyTo } = require("pg-copy-streams");

const OPTIONS = {
  host: "127.0.0.1",
  port: Number(process.argv[2]),
  user: "tester",
  database: "datafusion",
};

async function queries(client) {
  const one = await client.query("SELECT id, name FROM people ORDER BY id");
  assert.deepStrictEqual(one.rows, [
    { id: 1, name: "Ada" },
    { id: 2, name: "Barbara" },
    { id: 3, name: null },
  ]);
  assert.strictEqual(one.rowCount, 3);
  const array = await client.query({ text: "SELECT 1, 1, 'x'", rowMode: "array" });
  // Integers are bigint here, which node-postgres returns as text.
  assert.deepStrictEqual(array.rows, [["1", "1", "x"]]);
  assert.deepStrictEqual(array.fields.map((field) => field.name), ["?column?", "?column?", "?column?"]);
  const kinds = await client.query("SELECT numbers, words, flag, day FROM kinds WHERE k = 1");
  assert.deepStrictEqual(kinds.rows[0].numbers, [1, null, 3]);
  assert.deepStrictEqual(kinds.rows[0].words, ["a", "b c"]);
  assert.strictEqual(kinds.rows[0].flag, true);
  assert.ok(kinds.rows[0].day instanceof Date);
}

async function parameters(client) {
  const some = await client.query("SELECT id FROM people WHERE id = ANY($1) ORDER BY id", [[1, 3]]);
  assert.deepStrictEqual(some.rows.map((row) => row.id), [1, 3]);
  for (let n = 1; n <= 2; n++) {
    const named = { name: "by-id", text: "SELECT name FROM people WHERE id = $1", values: [n] };
    assert.strictEqual((await client.query(named)).rows[0].name, ["Ada", "Barbara"][n - 1]);
  }
  const nulls = await client.query("SELECT $1::text AS t, $2::int AS n", [null, 7]);
  assert.deepStrictEqual(nulls.rows, [{ t: null, n: 7 }]);
}

async function cursors(client) {
  const cursor = client.query(new Cursor("SELECT value FROM generate_series(1, 5000) AS g(value)"));
  let sum = 0;
  for (let rows = await cursor.read(700); rows.length > 0; rows = await cursor.read(700)) {
    sum += rows.reduce((total, row) => total + Number(row.value), 0);
  }
  await cursor.close();
  assert.strictEqual(sum, 12502500);
}

async function copies(client) {
  const stream = client.query(copyTo("COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"));
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.strictEqual(Buffer.concat(chunks).toString(), '"1","Ada"\n"2","Barbara"\n"3",\n');
}

async function errors(client) {
  await assert.rejects(client.query("SELECT 1 / 0"), { code: "22012" });
  await assert.rejects(client.query("SELECT * FROM nothing"), { code: "42P01" });
  await client.query("BEGIN");
  await assert.rejects(client.query("SELECT $1::int", ["no number"]));
  await client.query("ROLLBACK");
  assert.strictEqual((await client.query("SELECT 1::int AS one")).rows[0].one, 1);
}

async function pool() {
  const pool = new Pool({ ...OPTIONS, max: 4 });
  const all = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.query("SELECT $1::int AS n", [n])));
  assert.deepStrictEqual(all.map((result) => result.rows[0].n), Array.from({ length: 20 }, (_, n) => n));
  await pool.end();
}

async function main() {
  const client = new Client(OPTIONS);
  await client.connect();
  for (const check of [queries, parameters, cursors, copies, errors]) {
    await check(client);
    console.log(`${check.name}: ok`);
  }
  await client.end();
  await pool();
  console.log("done");
}

main();
