#include <nlohmann/json.hpp>
#include <iostream>
#include <map>

struct place { std::string name; double x, y; std::map<std::string, int> counts; };
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(place, name, x, y, counts)

int main() {
    auto parsed = nlohmann::json::parse(std::cin);
    auto places = parsed.get<std::vector<place>>();
    std::cout << nlohmann::json(places).dump(2) << nlohmann::json::to_cbor(parsed).size();
}
