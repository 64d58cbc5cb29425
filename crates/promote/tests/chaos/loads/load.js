// Compiles new functions all the time, hashes, and reads a file in the thread pool; checks all answers.
const fs = require('fs'), crypto = require('crypto');
const source = seed => `let x = seed; for (let i = 0; i < 5000; i++) x = (x * 31 + i) | 0; return x; // ${seed}`;
const right = new Function('seed', source(0))(7);
const digest = () => crypto.createHash('sha256').update('x'.repeat(4096)).digest('hex');
const known = digest();
let done = 0, asked = 0;
const wrong = what => { console.log(`wrong: ${what}`); process.exit(1); };
const one = () => {
    if (new Function('seed', source(done))(7) !== right) wrong('a compiled function');
    if (digest() !== known) wrong('a digest');
    fs.readFile(__filename, (error, text) => {
        if (error || !text.includes('thread pool')) wrong(`a file: ${error}`);
        done++;
        if (done === 200) console.log('ready');
        for (; asked > 0; asked--) console.log(`ok ${done}`);
        setTimeout(one, 1);
    });
};
process.stdin.on('data', text => { asked += text.toString().split('\n').length - 1; });
process.stdin.on('end', () => process.exit(0));
one();
