// The behaviour that programs written against pgx and lib/pq expect: arrays, introspection, cursors, COPY out.
// Run with the server's port and a driver's name (pgx, pq).
package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func equal(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		log.Panicf("got %#v, wanted %#v", got, wanted)
	}
}

func text(s string) *string { return &s }

func withPgx(port string) {
	ctx := context.Background()
	url := "postgres://tester@127.0.0.1:" + port + "/datafusion"
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		connection, err := pgx.Connect(ctx, url+"?default_query_exec_mode="+mode)
		must(err)
		var numbers []*int32
		var words []string
		var day time.Time
		var price pgtype.Numeric
		row := connection.QueryRow(ctx, "SELECT numbers, words, day, price FROM kinds WHERE k = $1", 1)
		must(row.Scan(&numbers, &words, &day, &price))
		one, three := int32(1), int32(3)
		equal(numbers, []*int32{&one, nil, &three})
		equal(words, []string{"a", "b c"})
		equal(day.Format(time.DateOnly), "2024-02-29")
		rows, err := connection.Query(ctx, "SELECT id FROM people WHERE id = ANY($1::int[]) ORDER BY id", []int32{1, 3})
		must(err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		must(err)
		equal(ids, []int32{1, 3})
		rows, err = connection.Query(ctx, "SELECT name FROM people ORDER BY id")
		must(err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[*string])
		must(err)
		equal(names, []*string{text("Ada"), text("Barbara"), nil})
		must(connection.Close(ctx))
	}
	connection, err := pgx.Connect(ctx, url)
	must(err)
	var out bytes.Buffer
	tag, err := connection.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT")
	must(err)
	equal(tag.String(), "COPY 3")
	equal(out.String(), "1\tAda\n2\tBarbara\n3\t\\N\n")
	loaded, err := connection.LoadType(ctx, "_int4")
	must(err)
	equal(loaded.OID, uint32(1007))
	var a, b int
	must(connection.QueryRow(ctx, "SELECT 1, 1").Scan(&a, &b))
	equal([]int{a, b}, []int{1, 1})
	batch := &pgx.Batch{}
	for i := range 5 {
		batch.Queue("SELECT $1::int * 2", i)
	}
	results := connection.SendBatch(ctx, batch)
	for i := range 5 {
		must(results.QueryRow().Scan(&a))
		equal(a, 2*i)
	}
	must(results.Close())
	transaction, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must(err)
	_, err = transaction.Exec(ctx, "SET LOCAL statement_timeout = '5s'")
	must(err)
	must(transaction.Commit(ctx))
	must(connection.Close(ctx))
	database, err := sql.Open("pgx", url)
	must(err)
	withSQL(database, []int32{1, 3})
	must(database.Close())
}

func withPq(port string) {
	for _, more := range []string{"", " binary_parameters=yes"} {
		database, err := sql.Open("postgres", "host=127.0.0.1 user=tester dbname=datafusion sslmode=disable port="+port+more)
		must(err)
		withSQL(database, pq.Array([]int32{1, 3}))
		var numbers []sql.NullInt32
		var words []string
		row := database.QueryRow("SELECT numbers, words FROM kinds WHERE k = $1", 1)
		must(row.Scan(pq.Array(&numbers), pq.Array(&words)))
		equal(numbers, []sql.NullInt32{{Int32: 1, Valid: true}, {}, {Int32: 3, Valid: true}})
		equal(words, []string{"a", "b c"})
		must(database.Close())
	}
}

// Common to both drivers, through database/sql.
func withSQL(database *sql.DB, ids any) {
	must(database.Ping())
	rows, err := database.Query("SELECT id, name FROM people WHERE id = ANY($1::int[]) ORDER BY id", ids)
	must(err)
	found := []int{}
	for rows.Next() {
		var id int
		var name sql.NullString
		must(rows.Scan(&id, &name))
		found = append(found, id)
	}
	must(rows.Err())
	equal(found, []int{1, 3})
	statement, err := database.Prepare("SELECT name FROM people WHERE id = $1")
	must(err)
	var name string
	must(statement.QueryRow(2).Scan(&name))
	equal(name, "Barbara")
	rows, err = database.Query("SELECT price, at FROM kinds WHERE k = 1")
	must(err)
	types, err := rows.ColumnTypes()
	must(err)
	equal(types[0].DatabaseTypeName(), "NUMERIC")
	precision, scale, ok := types[0].DecimalSize()
	equal([]any{precision, scale, ok}, []any{int64(12), int64(2), true})
	must(rows.Close())
	transaction, err := database.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	must(err)
	must(transaction.QueryRow("SELECT count(*) FROM people").Scan(&found[0]))
	equal(found[0], 3)
	must(transaction.Rollback())
}

func main() {
	log.SetFlags(0)
	port, driver := os.Args[1], os.Args[2]
	map[string]func(string){"pgx": withPgx, "pq": withPq}[driver](port)
	fmt.Println(driver + ": ok")
	fmt.Println("done")
}
