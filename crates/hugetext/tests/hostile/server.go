// A server that answers with what it was asked, and clients of it in many goroutines.
// `server serve` prints its address; `server load ADDRESS` asks until its standard input ends, and prints how many
// answers it got and how many were wrong or missing.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words := strings.Split(r.URL.Query().Get("words"), ",")
		sort.Strings(words)
		fmt.Fprint(w, strings.Join(words, ","))
	}))
}

func load(address string) {
	var answers, wrong atomic.Uint64
	var stop atomic.Bool
	var all sync.WaitGroup
	for client := 0; client < 16; client++ {
		all.Add(1)
		go func(client int) {
			defer all.Done()
			for n := 0; !stop.Load(); n++ {
				want := fmt.Sprintf("a%d,b%d,c%d", n, client, n)
				got := ""
				response, err := http.Get(fmt.Sprintf("http://%s/?words=c%d,a%d,b%d", address, n, n, client))
				if err == nil {
					body, _ := io.ReadAll(response.Body)
					response.Body.Close()
					got = string(body)
				}
				answers.Add(1)
				if got != want {
					wrong.Add(1)
				}
			}
		}(client)
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	stop.Store(true)
	all.Wait()
	fmt.Println(answers.Load(), wrong.Load())
}

func main() {
	if os.Args[1] == "serve" {
		serve()
	} else {
		load(os.Args[2])
	}
}
